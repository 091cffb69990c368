#!/bin/sh
# What the tests need from the operating system: a Java for Spark, a browser for the report.
# Installs from Debian's packages when root; otherwise says what is missing and goes on.
missing=""
command -v java >/dev/null 2>&1 || missing="$missing openjdk-17-jre-headless"
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "missing:$missing (tests that need them will be skipped; install them with your package manager)"
fi
