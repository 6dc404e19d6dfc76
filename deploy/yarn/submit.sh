#!/usr/bin/env bash
# Resolves subscriptions on YARN and pushes them. Once for each release, on a machine like the workers:
#   python3.11 -m venv environment && environment/bin/pip install --find-links dist 'spaps-server[batch]' venv-pack
#   environment/bin/venv-pack -p environment -o environment.tar.gz
# Then, with the client of Hadoop configured:
#   SPAPS_ENVIRONMENT=environment.tar.gz SPAPS_LAKE=hdfs:///spaps SPAPS_REDIS_URL=redis://redis.example:6379 \
#   deploy/yarn/submit.sh
# More options of the job may follow. Without SPAPS_ENVIRONMENT, the workers have an environment already,
# and SPAPS_PYTHON is its Python. SPAPS_MASTER=local-cluster[2,1,1024] tries it on one machine.
set -euo pipefail
master="${SPAPS_MASTER:-yarn}"
python="${SPAPS_PYTHON:-./environment/bin/python}"
options=(--master "$master" --name spaps --executor-cores 2 --executor-memory 4g)
if [[ $master == yarn ]]; then
  options+=(
    --deploy-mode cluster --properties-file "${SPAPS_PROPERTIES:-conf/spark-defaults.conf}"
    --num-executors "${SPAPS_EXECUTORS:-4}" --driver-memory 4g
    --conf "spark.yarn.appMasterEnv.SPAPS_REDIS_PASSWORD=${SPAPS_REDIS_PASSWORD:-}"
    --conf "spark.executorEnv.SPAPS_REDIS_PASSWORD=${SPAPS_REDIS_PASSWORD:-}"
    --conf "spark.yarn.appMasterEnv.PYSPARK_PYTHON=$python"
  )
  # The code, for the Application Master; the job sends it on to executors.
  options+=(--py-files "${SPAPS_WHEEL:?the wheel of spaps-server}")
else
  options=(--master "$master" --name spaps)
fi
[[ -n ${SPAPS_ENVIRONMENT:-} ]] && options+=(--archives "$SPAPS_ENVIRONMENT#environment")
exec "${SPARK_SUBMIT:-spark-submit}" "${options[@]}" --conf "spark.pyspark.python=$python" \
  "${SPAPS_JOBS:-jobs}/resolve_neighborhoods.py" \
  --world "${SPAPS_LAKE:?the folder of world and memberships}/world" --out "$SPAPS_LAKE" \
  --subscriptions "${SPAPS_SUBSCRIPTIONS:-redis}" --redis "${SPAPS_REDIS_URL:?}" "$@"
