# With LAB_SPEED, let the clock of this shell and of all that it starts run LAB_SPEED times as fast. Sourced in the lab.
# Every process must share one origin of time. Debian's `faketime` keeps it in shared memory that only its own user may open,
# so start it once beside the lab, open the memory to the other users, and take over its environment.
if [ "${LAB_SPEED:-1}" != 1 ]; then
  faketime -f "+0 x$LAB_SPEED" sleep infinity &
  faketime_pid=$!
  until child=$(pgrep -P $faketime_pid -x sleep) && grep -qz FAKETIME_SHARED "/proc/$child/environ"; do sleep 0.02; done
  chmod a+rw /dev/shm/*faketime*
  while IFS= read -rd '' entry; do
    case $entry in FAKETIME* | LD_PRELOAD=*) export "${entry?}" ;; esac
  done < "/proc/$child/environ"
  unset faketime_pid child entry
fi
