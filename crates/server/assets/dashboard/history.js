// What was seen while the page is open, a second a point, and before it what the server remembers: enough for the
// charts, and no more.
const POINTS = 600;

export class History {
  times = [];
  columns;

  constructor(columns) {
    this.columns = Array.from({ length: columns }, () => []);
  }

  push(time, ...values) {
    // After a gap the line is broken: nobody knows what was in between.
    const last = this.times.at(-1);
    if (last !== undefined && time <= last) return;
    if (last !== undefined && time - last > 5) this.#add(last + 1, this.columns.map(() => null));
    this.#add(time, values);
    while (this.times.length > POINTS) for (const column of [this.times, ...this.columns]) column.shift();
  }

  // What was before the first point, the oldest first: [time, ...values].
  precede(points) {
    const first = this.times[0] ?? Infinity;
    const before = points.filter(([time]) => time < first);
    this.times.unshift(...before.map(([time]) => time));
    this.columns.forEach((column, index) => column.unshift(...before.map((point) => point[index + 1] ?? null)));
  }

  #add(time, values) {
    this.times.push(time);
    this.columns.forEach((column, index) => column.push(values[index] ?? null));
  }
}
