# Read by spark-submit before it looks for Java. `make setup` notes the Java it found beside
# the installed pyspark: the one on the PATH may be too old, or too new for Spark 4.0.
if [ -r "${SPARK_HOME}/conf/java-home" ]; then
  JAVA_HOME="$(cat "${SPARK_HOME}/conf/java-home")"
fi
# The JVM that only puts together the command line of the next one.
SPARK_LAUNCHER_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC ${SPARK_LAUNCHER_OPTS:-}"
