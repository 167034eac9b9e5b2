#!/usr/bin/env bash
# Fetch Kafka and a schema registry for the tests of topics, by Maven (about 190 MB, once). Without Maven it says so, and they are skipped.
set -euo pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/auditor-tests
kafka=4.3.1 registry=2.6.13.Final
[ ! -d "$cache/kafka" ] || exit 0
command -v mvn >/dev/null || { echo "engines: Kafka: cannot download it without Maven; the tests of topics are skipped" >&2; exit 0; }
mkdir -p "$cache"
dir=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cat >"$dir/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>none</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$kafka</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$kafka</version></dependency>
  </dependencies>
</project>
POM
echo "engines: downloading Kafka $kafka and a schema registry from Maven (about 190 MB, once)" >&2
(cd "$dir" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=found/libs -DincludeScope=runtime) >&2
(cd "$dir" && mvn -q -B dependency:copy -Dartifact="io.apicurio:apicurio-registry-app:$registry:tar.gz:all" -DoutputDirectory=.) >&2
mkdir -p "$dir/found/registry"
tar -xzf "$dir/apicurio-registry-app-$registry-all.tar.gz" -C "$dir/found/registry"
# Renamed last, so that an interrupted download leaves no incomplete directory under this name.
mv "$dir/found" "$cache/kafka"
