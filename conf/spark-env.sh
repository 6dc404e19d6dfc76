# Read by spark-submit before it looks for Java. `make setup` notes the Java it found beside
# the installed pyspark: the one on the PATH may be too old, or too new for Spark 4.0.
if [ -r "${SPARK_HOME}/conf/java-home" ]; then
  JAVA_HOME="$(cat "${SPARK_HOME}/conf/java-home")"
fi
