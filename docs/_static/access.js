// What the theme leaves out for people who read by keyboard or by ear: code and tables that scroll can be reached with
// the Tab key, and the headings of the side bar have a level.
addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll("pre, .table-wrapper"))
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  for (const caption of document.querySelectorAll('.caption[role="heading"]')) caption.ariaLevel = "2";
});
