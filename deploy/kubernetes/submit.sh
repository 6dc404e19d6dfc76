#!/usr/bin/env bash
# Resolves all registered subscriptions on Kubernetes and pushes them:
#   SPAPS_MASTER=k8s://https://kubernetes.example:6443 SPAPS_IMAGE=registry.example/spaps:0.1 \
#   SPAPS_LAKE=s3a://bucket/lake SPAPS_REDIS_URL=rediss://redis.example:6379 deploy/kubernetes/submit.sh
# More options of the job (--version, --switch-anyway) may follow. The image has code and packages;
# settings and jars come from the properties file.
set -euo pipefail
properties="${SPAPS_PROPERTIES:-conf/spark-defaults.conf}"
# --packages takes the place of the packages of the properties file, so both are named.
packages="$(sed -nE 's/^spark\.jars\.packages[ =]+//p' "$properties"),org.apache.hadoop:hadoop-aws:3.4.1"
exec "${SPARK_SUBMIT:-spark-submit}" \
  --master "${SPAPS_MASTER:?the address of the API server, as k8s://https://HOST:PORT}" \
  --deploy-mode cluster --name spaps \
  --properties-file "$properties" \
  --packages "$packages" \
  --conf spark.kubernetes.container.image="${SPAPS_IMAGE:?the image of deploy/kubernetes/Dockerfile}" \
  --conf spark.kubernetes.namespace="${SPAPS_NAMESPACE:-spaps}" \
  --conf spark.kubernetes.authenticate.driver.serviceAccountName="${SPAPS_ACCOUNT:-spark}" \
  --conf spark.kubernetes.driver.secretKeyRef.SPAPS_REDIS_PASSWORD=spaps-redis:password \
  --conf spark.kubernetes.executor.secretKeyRef.SPAPS_REDIS_PASSWORD=spaps-redis:password \
  --conf spark.pyspark.python=/opt/spaps/venv/bin/python \
  --conf spark.executor.instances="${SPAPS_EXECUTORS:-4}" \
  --executor-cores 2 --executor-memory 4g --driver-memory 4g \
  local:///opt/spaps/jobs/resolve_neighborhoods.py \
  --world "${SPAPS_LAKE:?the folder of world and memberships}/world" --out "$SPAPS_LAKE" \
  --subscriptions redis --redis "${SPAPS_REDIS_URL:?}" "$@"
