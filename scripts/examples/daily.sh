#!/bin/sh
# In place of a daily cron entry: pushes one job for each of the next days, at a time of day in UTC.
#   daily.sh TOPIC HH:MM BODY [DAYS]
# Run it again whenever you like, from a deployment or from its own receiver: the id of a job is its day, so a stored
# job is kept and never doubled. A day without this machine loses no job that is stored. Needs GNU date.
set -eu

topic=$1
time=$2
body=$3
days=${4:-7}

now=$(date -u +%s)
day=0
while [ "$day" -le "$days" ]; do
  at=$(date -u -d "$(date -u -d "@$((now + day * 86400))" +%F) $time" +%Y-%m-%dT%H:%M:%SZ)
  # A job in the past is done, or due at once: neither is pushed again.
  if [ "$(date -u -d "$at" +%s)" -gt "$now" ]; then
    dq push "$topic" "$body" --id "$at" --at "$at" --mode keep
  fi
  day=$((day + 1))
done
