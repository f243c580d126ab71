// The file that Prometheus loads as one of its `rule_files`.

import { stringify } from 'yaml';
import { alertRules } from './monitoring.ts';

export function prometheusRules(): string {
  const rules = alertRules.map(({ name, expression, holds, severity, summary, action }) => ({
    alert: name,
    expr: expression,
    ...(holds === null ? {} : { for: holds }),
    labels: { severity },
    annotations: { summary, description: action },
  }));
  return stringify({ groups: [{ name: 'dq', rules }] }, { lineWidth: 0 });
}
