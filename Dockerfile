# The service, from this tree, with exactly the locked packages.
#
#   docker build -t shomei .
#   docker run --rm -v shomei:/var/lib/shomei shomei init
#   docker run -v shomei:/var/lib/shomei -p 127.0.0.1:8088:8088 -e SHOMEI_INSECURE_HTTP=true shomei serve
#
# Pin the base by digest for what you run in earnest: docker buildx imagetools inspect python:3.11-slim
FROM python:3.11-slim AS build
WORKDIR /build
COPY requirements/build.txt requirements/service.txt requirements/
RUN python -m venv /opt/shomei \
 && /opt/shomei/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements/service.txt \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY packages packages
RUN /opt/build/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation -w /build/dist . \
 && /opt/shomei/bin/pip install --no-cache-dir --no-deps --no-index /build/dist/*.whl

FROM python:3.11-slim
RUN groupadd --system --gid 10001 shomei \
 && useradd --system --uid 10001 --gid shomei --home-dir /var/lib/shomei --no-create-home --shell /usr/sbin/nologin shomei \
 && install -d -o shomei -g shomei -m 0700 /var/lib/shomei
COPY --from=build /opt/shomei /opt/shomei
ENV PATH=/opt/shomei/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    SHOMEI_HOME=/var/lib/shomei \
    SHOMEI_HOST=0.0.0.0
USER 10001:10001
WORKDIR /var/lib/shomei
VOLUME /var/lib/shomei
EXPOSE 8088
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8088/readyz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["shomei"]
CMD ["serve"]
