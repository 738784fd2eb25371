#!/bin/sh
# Systemd of a host, as far as an installation asks it.
printf '%s ' "$1" >> /run/asked
case "$1" in
  is-active) [ -e /run/active ] ;;
  restart) touch /run/active ;;
esac
