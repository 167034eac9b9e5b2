#!/usr/bin/env bash
# Fetch Kafka, a schema registry, and Spark's Kafka connector for the tests of topics, by Maven (about 200 MB, once). Without Maven it says
# so, and they are skipped.
set -euo pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/auditor-tests
kafka=4.3.1 registry=2.6.13.Final connector=4.2.0 # of Spark; it runs in 4.3 too
[ ! -d "$cache/kafka" ] || [ ! -d "$cache/kafka-spark" ] || exit 0
command -v mvn >/dev/null || { echo "engines: Kafka: cannot download it without Maven; the tests of topics are skipped" >&2; exit 0; }
mkdir -p "$cache"
dir=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$dir"' EXIT

# copy_jars FOLDER DEPENDENCIES: the jars of a project that has these dependencies.
copy_jars() {
  cat >"$dir/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>none</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>$2</dependencies>
</project>
POM
  (cd "$dir" && mvn -q -B dependency:copy-dependencies -DoutputDirectory="$1" -DincludeScope=runtime) >&2
}

# Each folder is renamed last, so that an interrupted download leaves no incomplete one under its name.
if [ ! -d "$cache/kafka" ]; then
  echo "engines: downloading Kafka $kafka and a schema registry from Maven (about 190 MB, once)" >&2
  broker="<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$kafka</version></dependency>"
  tools="<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$kafka</version></dependency>"
  copy_jars found/libs "$broker$tools"
  (cd "$dir" && mvn -q -B dependency:copy -Dartifact="io.apicurio:apicurio-registry-app:$registry:tar.gz:all" -DoutputDirectory=.) >&2
  mkdir -p "$dir/found/registry"
  tar -xzf "$dir/apicurio-registry-app-$registry-all.tar.gz" -C "$dir/found/registry"
  mv "$dir/found" "$cache/kafka"
fi
if [ ! -d "$cache/kafka-spark" ]; then
  echo "engines: downloading Spark's Kafka connector $connector from Maven (about 11 MB, once)" >&2
  hadoop="<exclusions><exclusion><groupId>org.apache.hadoop</groupId><artifactId>*</artifactId></exclusion></exclusions>" # PySpark has it
  copy_jars spark "<dependency><groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId>\
<version>$connector</version>$hadoop</dependency>"
  rm -f "$dir"/spark/{scala,slf4j,lz4,snappy}-*.jar # PySpark has them
  mv "$dir/spark" "$cache/kafka-spark"
fi
