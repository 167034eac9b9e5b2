# The service as a container: docker build -t auditor .          (with Spark's client and Java: docker build --target spark -t auditor:spark .)
#
#   docker run -p 127.0.0.1:8080:8080 -v ./auditor.yaml:/etc/auditor/auditor.yaml:ro -v auditor:/var/lib/auditor auditor
#
# The configuration is /etc/auditor/auditor.yaml. It must set the store: a database on a server, or a file in the volume,
# sqlite:////var/lib/auditor/auditor.db. The service needs a token before it can be used from other machines:
#
#   docker run --rm ... auditor token create --scope define --name NAME
ARG PYTHON=python:3.12-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254

FROM ${PYTHON} AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY sql_templates sql_templates
COPY dialects dialects
COPY auditor auditor
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

# The installed packages and the image they go into are separate stages, so that each is cached on its own.
# Packages are those whose hashes requirements/ names, and no others: make pins.
FROM ${PYTHON} AS environment
COPY requirements/service.txt /requirements/
RUN python -m venv /opt/auditor \
 && /opt/auditor/bin/pip install --no-cache-dir --require-hashes --requirement /requirements/service.txt
COPY --from=wheel /wheels /wheels
RUN /opt/auditor/bin/pip install --no-cache-dir --no-deps /wheels/auditor-*.whl

FROM ${PYTHON} AS environment-spark
COPY requirements/spark.txt /requirements/
RUN python -m venv /opt/auditor \
 && /opt/auditor/bin/pip install --no-cache-dir --require-hashes --requirement /requirements/spark.txt
COPY --from=wheel /wheels /wheels
RUN /opt/auditor/bin/pip install --no-cache-dir --no-deps /wheels/auditor-*.whl

# The trial installation of docker-compose.yml: also what imitates S3 there.
FROM ${PYTHON} AS environment-trial
COPY requirements/trial.txt /requirements/
RUN python -m venv /opt/auditor \
 && /opt/auditor/bin/pip install --no-cache-dir --require-hashes --requirement /requirements/trial.txt
COPY --from=wheel /wheels /wheels
RUN /opt/auditor/bin/pip install --no-cache-dir --no-deps /wheels/auditor-*.whl

FROM ${PYTHON} AS base
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/auditor --create-home auditor \
 && mkdir /etc/auditor \
 && install --directory --owner=auditor --group=auditor /lake
ENV PATH=/opt/auditor/bin:$PATH AUDITOR_CONFIG=/etc/auditor/auditor.yaml PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /var/lib/auditor
VOLUME /var/lib/auditor
EXPOSE 8080
USER 10001:10001
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=4 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]
ENTRYPOINT ["auditor"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8080"]

FROM base AS spark
COPY --from=environment-spark /opt/auditor /opt/auditor

FROM base AS trial
COPY --from=environment-trial /opt/auditor /opt/auditor

# The last stage is the one that is built without --target.
FROM base AS service
COPY --from=environment /opt/auditor /opt/auditor
