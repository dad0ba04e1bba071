# Everything in one container: a cluster on http://127.0.0.1:8080 for as long as the container runs.
#   docker build -t dralab . && docker run --rm -p 127.0.0.1:8080:8080 dralab
# What follows the image's name are words for the dralab command: docker run --rm dralab up --nodes 8 …
# The documentation: docker run --rm -p 127.0.0.1:8000:8000 dralab docs --listen 0.0.0.0 --port 8000
ARG BASE=python:3.12.12-slim-bookworm

# The documentation that `dralab docs` serves. What builds it stays in this stage.
FROM ${BASE} AS site
WORKDIR /src
COPY requirements-dev.lock requirements-dev.lock
RUN python3 -m venv .venv && .venv/bin/pip install --no-cache-dir --require-hashes -r requirements-dev.lock
COPY . .
RUN tools/install python3 .venv requirements-dev.lock . && .venv/bin/python -m tools.site

FROM ${BASE}

ENV PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/dralab/bin:$PATH \
    DRALAB_DATA=/var/lib/dralab

WORKDIR /src
COPY requirements.lock requirements.lock
RUN python3 -m venv /opt/dralab && pip install --require-hashes -r requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY tools/hatch_build.py tools/hatch_build.py
COPY examples examples
COPY shared shared
COPY services services
COPY toolkit toolkit
COPY cli cli
COPY --from=site /src/site site
RUN pip install --no-deps --no-build-isolation . \
    && mkdir -p /var/lib/dralab && chown 10001:10001 /var/lib/dralab

USER 10001:10001
WORKDIR /var/lib/dralab
VOLUME /var/lib/dralab
EXPOSE 8080
HEALTHCHECK --interval=2s --timeout=5s --start-period=30s --retries=5 CMD ["dralab", "status"]
ENTRYPOINT ["dralab"]
CMD ["up", "--listen", "0.0.0.0"]
