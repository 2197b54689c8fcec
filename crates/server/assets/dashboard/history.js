// What was seen while the page is open, a second a point: enough for the charts, and no more.
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

  #add(time, values) {
    this.times.push(time);
    this.columns.forEach((column, index) => column.push(values[index] ?? null));
  }
}
