# Read by spark-submit before it looks for Java. `make setup` notes the Java it found beside
# the installed pyspark: the one on the PATH may be too old, or too new for Spark 4.0.
if [ -r "${SPARK_HOME}/conf/java-home" ]; then
  JAVA_HOME="$(cat "${SPARK_HOME}/conf/java-home")"
fi
# The JVM that only puts together the command line of the next one.
SPARK_LAUNCHER_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC ${SPARK_LAUNCHER_OPTS:-}"
# The second compiler of the JVM takes more time than it saves where a driver is gone after some
# seconds, and saves more than it takes where it joins for minutes. So it is left out for a job
# on a small world (20 MB are about 800,000 entities), and only there. `--driver-java-options
# -XX:TieredStopAtLevel=4` has it all the same.
spaps_world_is_small() {
  local world="" size
  while [ $# -gt 0 ]; do
    case "$1" in
      */resolve_neighborhoods.py) world="${world:-lake/world}" ;;
      --world) world="${2:-}" ;;
      --world=*) world="${1#--world=}" ;;
    esac
    shift
  done
  size="$(du -sk "${world}/entities" 2>/dev/null | cut -f1)"
  # Where there is no world yet, it is the sample that will be there.
  [ "${size:-$([ "${world}" = lake/world ] && echo 0 || echo 20001)}" -le 20000 ]
}
if spaps_world_is_small "$@"; then
  SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 ${SPARK_SUBMIT_OPTS:-}"
fi
unset -f spaps_world_is_small
