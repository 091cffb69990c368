// What the theme leaves out for people who read by keyboard or by ear: code that scrolls can be reached with the
// Tab key, and the headings of the side bar have a level.
addEventListener("DOMContentLoaded", () => {
  for (const code of document.querySelectorAll("pre"))
    if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
  for (const caption of document.querySelectorAll('.caption[role="heading"]')) caption.ariaLevel = "2";
});
