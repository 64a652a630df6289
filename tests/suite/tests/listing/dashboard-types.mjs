// Prints a module that assigns a dashboard to the types that Grafana publishes (npm: @grafana/schema), for tsc to check: the
// dashboard itself, and what its types leave open: options and fields of each kind of panel, and the queries.
import { readFileSync } from 'node:fs';

const { panels, ...dashboard } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const raw = '@grafana/schema/dist/esm/raw';
const modules = { stat: 'Stat', timeseries: 'TimeSeries' };

console.log(`import type { DataQuery } from '@grafana/schema';
import type { Dashboard, Panel } from '${raw}/dashboard/x/Dashboard_types.gen';
import type * as Stat from '${raw}/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as TimeSeries from '${raw}/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

// In a file the members of an enum are their words.
type Json<T> = T extends string ? \`\${T}\` : T extends object ? { [K in keyof T]: Json<T[K]> } : T;
type Fields = { Stat: Record<string, never>, TimeSeries: Partial<TimeSeries.FieldConfig> };
type Query = DataQuery & { expr: string, legendFormat?: string };
`);
const hold = (name, type, value) => console.log(`export const ${name}: ${type} = ${JSON.stringify(value, null, 1)};`);
hold('dashboard', 'Json<Dashboard>', dashboard);
for (const panel of panels) {
    const kind = modules[panel.type];
    if (!kind) throw new Error(`panel ${panel.id}: no types are known for ${panel.type}`);
    const { options, targets, ...rest } = panel;
    const { custom, ...defaults } = rest.fieldConfig.defaults;
    hold(`panel${panel.id}`, 'Json<Panel>', { ...rest, fieldConfig: { ...rest.fieldConfig, defaults } });
    hold(`options${panel.id}`, `Json<Partial<${kind}.Options>>`, options);
    hold(`fields${panel.id}`, `Json<Fields['${kind}']>`, custom);
    hold(`queries${panel.id}`, 'Query[]', targets);
}
