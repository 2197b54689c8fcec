// The charts, all drawn by uPlot. Colours are asked for at each drawing, so that they follow light and dark.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const line = (name, more = {}) => ({ stroke: () => colour(name), width: 1.5, points: { show: false }, ...more });
const area = (name) => ({ fill: () => `${colour(name)}2e` });
// A mark is drawn where the level may come to meet it; a far one would flatten the line.
const NEAR = 0.05;

const fromZero = (_, _min, max) => [0, max > 0 ? max * 1.1 : 1];
// A level that hardly moves is drawn flat: a thousandth of a huge space must not look like a fall.
const STEADY = 0.02;
function around(_, min, max) {
  if (min === null || max === null) return [0, 1];
  const room = Math.max(1, (max - min) * 0.15, max * STEADY);
  return [Math.max(0, min - room), max + room];
}

// Time comes in from the right: a line of two points is not drawn as if it had always been there.
const LEAST_SECONDS = 30;
const recent = (_, min, max) => (max === null ? [0, LEAST_SECONDS] : [Math.min(min, max - LEAST_SECONDS), max]);
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600];

const charts = new Set();

class Chart {
  constructor(box, options, data) {
    this.box = box;
    this.plot = new uPlot({ ...options, width: Math.max(60, box.clientWidth), height: box.clientHeight || 44 }, data, box);
    charts.add(this);
  }

  set(data) {
    this.plot.setData(data);
  }

  resize() {
    const width = this.box.clientWidth;
    if (width && width !== this.plot.width) this.plot.setSize({ width, height: this.plot.height });
  }

  destroy() {
    charts.delete(this);
    this.plot.destroy();
  }
}

addEventListener("resize", () => charts.forEach((chart) => chart.resize()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.plot.redraw()));

const axis = (more) => ({
  stroke: () => colour("--quiet"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif", ...more,
});

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const times = (_, all) => all.map((time) => clock.format(time * 1000));

// `history` holds rates.
export function rateChart(box, history, name) {
  return new Chart(box, {
    legend: { show: false }, cursor: { show: false }, padding: [6, 6, 0, 0],
    axes: [axis({ size: 24, space: 90, incrs: SECONDS, values: times }), axis({ size: 52, space: 28, values: (_, all) => all.map(name) })],
    scales: { x: { range: recent }, y: { range: fromZero } }, series: [{}, line("--accent", { width: 2, ...area("--accent") })],
  }, [history.times, history.columns[0]]);
}

// What a chart of a keyspace shows: its rates, its levels, and the marks that are near.
export function keyspaceData(history, { level, restart_keys: restart, page_keys: page }) {
  const [levels, rates] = history.columns;
  const mark = (keys) => (keys !== undefined && keys !== null && keys >= Number(level) * NEAR ? Number(keys) : null);
  return [history.times, rates, levels, ...[restart, page].map((keys) => history.times.map(() => mark(keys)))];
}

const keyspaceSeries = () => [
  {}, line("--accent", { scale: "rate", width: 1, ...area("--accent") }), line("--ink", { scale: "level" }),
  line("--warn", { scale: "level", dash: [5, 3] }), line("--bad", { scale: "level", dash: [5, 3] }),
];
const keyspaceScales = { x: { range: recent }, rate: { range: fromZero }, level: { range: around } };

export function spark(box, data) {
  return new Chart(box, {
    legend: { show: false }, cursor: { show: false }, padding: [2, 2, 2, 2], axes: [{ show: false }],
    scales: keyspaceScales, series: keyspaceSeries(),
  }, data);
}

export function keyspaceChart(box, data, name) {
  const labels = ["time", "keys/s", "level", "restart mark", "page mark"];
  const values = (_, all) => all.map(name);
  return new Chart(box, {
    padding: [8, 0, 0, 0], scales: keyspaceScales,
    axes: [axis({ size: 26, space: 90, incrs: SECONDS, values: times }), axis({ scale: "level", size: 70, label: "level", labelSize: 18, values }),
      axis({ scale: "rate", side: 1, size: 60, label: "keys/s", labelSize: 18, grid: { show: false }, values })],
    series: keyspaceSeries().map((series, index) => ({
      ...series, label: labels[index], value: (_, value) => (value === null ? "–" : index ? name(value) : clock.format(value * 1000)),
    })),
  }, data);
}
