# A service for one model file, without PyTorch. Build it from a checkout and mount the model file:
#
#   docker build -t prunus .
#   docker run --rm --read-only --cap-drop ALL --security-opt no-new-privileges --memory 1g \
#     -p 127.0.0.1:8000:8000 -v "$PWD/model.prunus:/models/model.prunus:ro" prunus
#
# Arguments after the image's name replace the default ones: prunus /models/other.prunus --threads 2
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
# hadolint ignore=DL3008  # Debian removes old versions of its compiler, so a pinned one could not be installed for long
RUN apt-get update \
 && apt-get install --yes --no-install-recommends g++ \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY requirements-uv.txt ./
RUN pip install --no-cache-dir --require-hashes --requirement requirements-uv.txt
COPY pyproject.toml requirements.txt README.md LICENSE NOTICE ./
COPY native native
COPY src src
# the versions of requirements.txt; a build without the native engine is an error
RUN uv venv --python "$(command -v python)" /opt/prunus \
 && PRUNUS_REQUIRE_NATIVE=1 uv pip install --no-cache --compile-bytecode --python /opt/prunus/bin/python \
      --constraint requirements.txt '.[serve]'

FROM python:${PYTHON}-slim
COPY --from=build /opt/prunus /opt/prunus
ENV PATH=/opt/prunus/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin prunus
USER 10001:10001
WORKDIR /models
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["prunus", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/models/model.prunus"]
