import { metrics } from '@opentelemetry/api'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { createTelemetry } from 'merchant-auth/opentelemetry'

const { METRICS_HOST: host = '0.0.0.0', METRICS_PORT: port = '9464' } = process.env
const exporter = new PrometheusExporter(
  { host, port: Number(port) },
  (error) => error && console.error(error),
) // /metrics
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [exporter] }))
export const tokens = createTokenProvider({ ...optionsFromEnv(), onEvent: createTelemetry() })
