#!/bin/sh
# Simulates systemctl, as far as an installation uses it.
printf '%s ' "$1" >> /run/asked
case "$1" in
  is-active) [ -e /run/active ] ;;
  restart) touch /run/active ;;
esac
