import { metrics } from '@opentelemetry/api'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { createTelemetry } from 'merchant-auth/opentelemetry'

const port = Number(process.env['METRICS_PORT'] ?? 9464)
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [new PrometheusExporter({ port })] })) // path: /metrics
export const tokens = createTokenProvider({ ...optionsFromEnv(), onEvent: createTelemetry() })
