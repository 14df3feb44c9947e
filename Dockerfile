# syntax=docker/dockerfile:1
# One image with the three processes and the command `fedhpa`. `make image` builds it, for amd64 and arm64.
# tests/unit/test_image.py checks these lines; tests/integration/test_image_runs.py runs them without a daemon.

# By digest of the index for all platforms, so that a build today and one in a month start alike. Renovate moves it.
FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/fedhpa
# Dependencies first: this layer changes only with the lock file. Only wheels, so no compiler is needed.
COPY lock/runtime.txt lock/build.txt lock/
RUN pip --python /opt/fedhpa/bin/python install --no-cache-dir --no-compile --require-hashes --only-binary=:all: -r lock/runtime.txt
RUN python -m venv --without-pip /opt/build
RUN pip --python /opt/build/bin/python install --no-cache-dir --no-compile --require-hashes --only-binary=:all: -r lock/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY fedhpa fedhpa
# fedhpa/api/rights.yaml and two CRDs in fedhpa/admission are links to them.
COPY charts/fedhpa/files/rights.yaml charts/fedhpa/files/rights.yaml
COPY charts/fedhpa/files/crds charts/fedhpa/files/crds
COPY webhook webhook
COPY metrics_adapter metrics_adapter
COPY controller controller
COPY certs certs
RUN /opt/build/bin/python -m hatchling build -t wheel -d /opt/wheels
RUN pip --python /opt/fedhpa/bin/python install --no-cache-dir --no-compile --no-index --no-deps /opt/wheels/fedhpa-*.whl
# The root file system is read-only in a pod, so Python could not keep what it compiles.
RUN python -m compileall -q -j 0 /opt/fedhpa/lib

FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
LABEL org.opencontainers.image.title="fedhpa" \
      org.opencontainers.image.description="Federated autoscaling for Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="python:3.11-slim-bookworm"
COPY --from=build /opt/fedhpa /opt/fedhpa
ENV PATH=/opt/fedhpa/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TZ=UTC
WORKDIR /tmp
# A number, because Kubernetes cannot check runAsNonRoot for a name.
USER 65532:65532
CMD ["fedhpa", "--help"]
