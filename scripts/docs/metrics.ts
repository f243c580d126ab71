// Renders the reference page of all metrics.
import { renderMetricsTable } from '../../src/telemetry/metric-declarations.ts';

export function metricsPage(): string {
  return `# Metrics

\`GET /metrics\` returns these metrics in the text format of Prometheus. Counters start at 0 with the daemon.
[Monitoring](../monitoring.md) explains which ones to watch, and brings alert rules.

${renderMetricsTable()}
See also: [Monitoring](../monitoring.md) · [HTTP API](http.md)
`;
}
