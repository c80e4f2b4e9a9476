# docker build -t gptcalc . && docker run --rm -v "$PWD:/here" -w /here gptcalc params ./my-model
FROM python:3.13-slim AS build
COPY . /source
RUN pip install --no-cache-dir --no-compile --prefix=/made /source

FROM python:3.13-slim
COPY --from=build /made /usr/local
ENTRYPOINT ["gptcalc"]
