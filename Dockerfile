# The image of `kubewright up` and the other commands: built from the wheel in dist/, without a compiler, a package manager or root.
FROM python:3.13-slim AS build
COPY dist/kubewright-*.whl /tmp/
RUN python -m venv /opt/kubewright \
    && wheel=$(ls /tmp/kubewright-*.whl) \
    && /opt/kubewright/bin/pip install --no-cache-dir --no-compile "$wheel[etcd,postgresql,encryption,http2]" \
    && /opt/kubewright/bin/pip uninstall --yes pip

FROM python:3.13-slim
RUN rm -rf /usr/local/lib/python3.13/site-packages/* /usr/local/bin/pip* \
    && mkdir /data && chown 65532:65532 /data
COPY --from=build /opt/kubewright /opt/kubewright
ENV PATH=/opt/kubewright/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /data
EXPOSE 6443
ENTRYPOINT ["kubewright"]
CMD ["up", "--bind", "0.0.0.0", "--port", "6443", "--store", "sqlite:/data/state.db"]
