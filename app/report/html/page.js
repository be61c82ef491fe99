// Draws the lanes, the memory and the comparison of the page from its data. html_report.cc writes the data and says
// how rectangles are packed. All texts reach the page as text, never as HTML.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");
  const LANE = 18, NAMES = 150, AXIS = 22;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const make = (tag, parent, text) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    parent.appendChild(element);
    return element;
  };

  // Three significant digits with a unit: 1234567 ns is "1.23 ms".
  const timeText = (ns) => {
    const size = Math.abs(ns);
    const [unit, scale] = size >= 1e9 ? ["s", 1e9] : size >= 1e6 ? ["ms", 1e6] : size >= 1e3 ? ["us", 1e3] : ["ns", 1];
    return Number((ns / scale).toPrecision(3)) + " " + unit;
  };
  const bytesText = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;
    while (bytes >= 1024 && i < 4) { bytes /= 1024; ++i; }
    return Number(bytes.toPrecision(3)) + " " + units[i];
  };

  // Ticks at 1, 2 or 5 times a power of ten, with their unit and as many digits as neighbours need.
  const ticks = (from, to, pixels) => {
    const rough = (to - from) / Math.max(2, pixels / 110);
    const power = Math.pow(10, Math.floor(Math.log10(Math.max(rough, 1))));
    const step = power * ([1, 2, 5, 10].find((times) => times * power >= rough) || 10);
    const unit = to >= 1e9 ? 1e9 : to >= 1e6 ? 1e6 : to >= 1e3 ? 1e3 : 1;
    const name = { 1: "ns", 1e3: "us", 1e6: "ms", 1e9: "s" }[unit];
    const digits = Math.max(0, Math.ceil(-Math.log10(step / unit)));
    const found = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      found.push([at, (at / unit).toFixed(Math.min(digits, 9)) + " " + name]);
    }
    return found;
  };

  // A lane's rectangles as arrays: start, end, op or minus the number of spans, and the fourth number.
  const unpack = (lane) => {
    const count = lane.r.length / 4;
    const out = { name: "rank " + lane.rank + " " + lane.queue, rank: lane.rank, queue: lane.queue,
                  start: new Float64Array(count), end: new Float64Array(count), op: new Int32Array(count),
                  more: new Float64Array(count) };
    let at = 0;
    for (let i = 0; i < count; ++i) {
      at += lane.r[4 * i];
      out.start[i] = at;
      at += lane.r[4 * i + 1];
      out.end[i] = at;
      out.op[i] = lane.r[4 * i + 2];
      out.more[i] = lane.r[4 * i + 3];
    }
    return out;
  };
  const workOf = (lane, i) => lane.op[i] >= 0 ? data.ops[lane.op[i]][1] : lane.more[i] % 10;
  // The first rectangle that ends after a time.
  const firstAfter = (lane, time) => {
    let low = 0, high = lane.end.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.end[middle] > time) high = middle; else low = middle + 1;
    }
    return low;
  };

  const showTip = (event, text) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)) + "px";
  };

  const sized = (canvas, width, height) => {
    const scale = Math.min(devicePixelRatio || 1, 2);
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = height + "px";
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px Inter, system-ui, sans-serif";
    pen.textBaseline = "middle";
    return pen;
  };

  const redraws = [];
  const redrawAll = () => redraws.forEach((draw) => draw());

  // Zoom and pan by wheel, drag, buttons and keys. `view` has from, to and length; `plot` is where time is drawn.
  const moveBy = (box, canvas, view, draw) => {
    const width = () => canvas.clientWidth - NAMES;
    const limit = () => {
      const least = Math.min(50, view.length), span = Math.min(Math.max(view.to - view.from, least), view.length);
      view.from = Math.min(Math.max(0, view.from), view.length - span);
      view.to = view.from + span;
      draw();
    };
    const zoom = (factor, at) => {
      view.from = at - (at - view.from) * factor;
      view.to = at + (view.to - at) * factor;
      limit();
    };
    const pan = (share) => {
      const by = (view.to - view.from) * share;
      view.from += by;
      view.to += by;
      if (view.from < 0 || view.to > view.length) {
        const span = view.to - view.from;
        view.from = Math.min(Math.max(0, view.from), view.length - span);
        view.to = view.from + span;
      }
      limit();
    };
    const fit = () => { view.from = 0; view.to = view.length; limit(); };
    canvas.addEventListener("wheel", (event) => {
      const across = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
      // Without a modifier the wheel over the names scrolls the page, as elsewhere.
      if (event.offsetX < NAMES && !across) return;
      event.preventDefault();
      if (across) return pan((event.deltaX || event.deltaY) / 1000);
      zoom(Math.pow(1.002, event.deltaY), view.from + (event.offsetX - NAMES) / width() * (view.to - view.from));
    }, { passive: false });
    let held = null;
    canvas.addEventListener("pointerdown", (event) => { held = event.clientX; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("pointermove", (event) => {
      if (held === null) return;
      pan((held - event.clientX) / width());
      held = event.clientX;
    });
    canvas.addEventListener("dblclick", fit);
    box.addEventListener("keydown", (event) => {
      const middle = (view.from + view.to) / 2;
      const act = { "+": () => zoom(0.7, middle), "=": () => zoom(0.7, middle), "-": () => zoom(1 / 0.7, middle),
                    ArrowLeft: () => pan(-0.1), ArrowRight: () => pan(0.1), Home: fit }[event.key];
      if (!act || event.target.tagName === "SELECT") return;
      event.preventDefault();
      act();
    });
    return { fit, zoom, pan, show: (from, to) => { view.from = from; view.to = to; limit(); } };
  };

  const legend = (bar, names, prefix, used) => {
    names.forEach((name, i) => {
      if (!used.has(i)) return;
      const key = make("span", bar);
      key.className = "key";
      make("i", key).style.background = "var(--" + prefix + "-" + i + ")";
      make("span", key, name.replace(/_/g, " "));
    });
  };

  // Lanes of [{lane, predicted}], one below the other, on one axis of time.
  const lanes = (id, rows, view, steps, detail) => {
    const box = document.getElementById(id);
    if (!box) return;
    box.replaceChildren();
    const bar = make("div", box);
    bar.className = "bar";
    const axis = make("canvas", box), scroll = make("div", box);
    scroll.className = "lanes";
    const canvas = make("canvas", scroll);
    make("p", box, "Wheel or + and - zoom, drag or arrow keys move, a double click shows all.").className = "hint";
    const draw = () => {
      const width = canvas.clientWidth || box.clientWidth - 18, plot = width - NAMES;
      const scale = plot / Math.max(1, view.to - view.from);
      const x = (time) => NAMES + (time - view.from) * scale;
      axis.style.width = width + "px";
      const top = sized(axis, width, AXIS), pen = sized(canvas, width, rows.length * LANE + 4);
      const marks = ticks(view.from, view.to, plot);
      const works = data.works.map((name, i) => colour("work-" + i));
      const [text, muted, grid, ground, onSpan, predicted] =
        ["text", "muted", "grid", "ground", "on-span", "predicted"].map(colour);
      top.fillStyle = muted;
      pen.fillStyle = grid;
      for (const [at, label] of marks) {
        top.fillText(label, Math.min(x(at) + 3, width - 60), AXIS / 2);
        pen.fillRect(x(at), 0, 1, rows.length * LANE);
      }
      pen.save();
      pen.beginPath();
      pen.rect(NAMES, 0, plot, rows.length * LANE);
      pen.clip();
      rows.forEach(({ lane, predicted: isForecast }, row) => {
        const y = row * LANE + 2, height = LANE - 4;
        for (let i = firstAfter(lane, view.from); i < lane.start.length && lane.start[i] < view.to; ++i) {
          const left = x(lane.start[i]), wide = Math.max(x(lane.end[i]) - left, 0.6), sum = lane.op[i] < 0;
          pen.fillStyle = works[workOf(lane, i)];
          // A sum is as high as the share of its time in which a span runs.
          const share = sum ? Math.max(0.15, Math.floor(lane.more[i] / 10) / 1000) : 1;
          pen.globalAlpha = isForecast ? 0.3 : 1;
          pen.fillRect(left, y + height * (1 - share), wide > 3 ? wide - 0.5 : wide, height * share);
          pen.globalAlpha = 1;
          if (sum || wide < 34) continue;
          const name = data.ops[lane.op[i]][0], from = Math.max(left, NAMES) + 4;
          const room = Math.min(left + wide, width) - from - 4;
          const fits = Math.floor(room / 6.6);
          if (fits < 4) continue;
          pen.fillStyle = isForecast ? predicted : onSpan;
          pen.fillText(name.length > fits ? name.slice(0, fits - 1) + "…" : name, from, y + height / 2 + 0.5);
        }
      });
      pen.fillStyle = muted;
      for (const [number, start] of steps) {
        if (start < view.from || start > view.to || steps.length < 2) continue;
        pen.fillRect(x(start), 0, 1, rows.length * LANE);
        if (steps.length * 60 * (view.to - view.from) / view.length < plot) {
          top.fillText("|" + number, x(start), AXIS - 5);
        }
      }
      pen.restore();
      pen.fillStyle = ground;
      let before = null;
      rows.forEach(({ lane, title }, row) => {
        pen.fillStyle = lane.rank !== before ? text : muted;
        before = lane.rank;
        pen.fillText(title || lane.name, 0, row * LANE + LANE / 2, NAMES - 6);
      });
    };
    const move = moveBy(box, canvas, view, draw);
    const button = (name, act) => make("button", bar, name).addEventListener("click", act);
    button("All", move.fit);
    if (detail && detail[1] > detail[0]) button("Step", () => move.show(detail[0], detail[1]));
    button("+", () => move.zoom(0.5, (view.from + view.to) / 2));
    button("-", () => move.zoom(2, (view.from + view.to) / 2));
    const used = new Set();
    rows.forEach(({ lane }) => { for (let i = 0; i < lane.op.length; ++i) used.add(workOf(lane, i)); });
    legend(bar, data.works, "work", used);
    canvas.addEventListener("pointermove", (event) => {
      const row = rows[Math.floor(event.offsetY / LANE)];
      if (!row || event.offsetX < NAMES) return showTip(event, "");
      const lane = row.lane, plot = canvas.clientWidth - NAMES;
      const slack = 2 * (view.to - view.from) / plot;
      const time = view.from + (event.offsetX - NAMES) / plot * (view.to - view.from);
      const i = firstAfter(lane, time - slack);
      if (i >= lane.start.length || lane.start[i] > time + slack) return showTip(event, "");
      const length = lane.end[i] - lane.start[i];
      const place = (row.title ? row.title + ", " : "") + lane.name + ", at " + timeText(lane.start[i]);
      if (lane.op[i] < 0) {
        const busy = Math.floor(lane.more[i] / 10) / 10;
        return showTip(event, -lane.op[i] + " spans, mostly " + data.works[workOf(lane, i)] + "\n" + timeText(length) +
                              ", " + busy + " % busy\n" + place);
      }
      const [name, work, opClass, what] = data.ops[lane.op[i]];
      const wait = lane.more[i] > 0 ? ", waited " + timeText(lane.more[i]) : "";
      showTip(event, name + "\n" + timeText(length) + wait + "\n" + opClass + ", " + data.works[work] +
                     (what && what !== name ? "\n" + what : "") + "\n" + place);
    });
    canvas.addEventListener("pointerleave", (event) => showTip(event, ""));
    redraws.push(draw);
    draw();
    // Many spans of a long run are sums; the detailed step has them all.
    if (detail && detail[1] > detail[0] && steps.length > 1) move.show(detail[0], detail[1]);
  };

  const memory = () => {
    const box = document.getElementById("draw-memory");
    if (!box || data.memory.length === 0) return;
    box.replaceChildren();
    const bar = make("div", box), select = make("select", bar), keys = make("span", bar);
    bar.className = "bar";
    keys.className = "bar";
    select.setAttribute("aria-label", "rank and space");
    data.memory.forEach((series) => make("option", select, "rank " + series.rank + ", " + series.space));
    const canvas = make("canvas", box), height = 260;
    const view = { from: 0, to: data.time.length, length: Math.max(1, data.time.length) };
    const unpacked = () => {
      const { categories, m } = data.memory[select.selectedIndex], size = categories.length + 1;
      const moments = [];
      for (let i = 0; i < m.length; i += size) moments.push(m.slice(i, i + size));
      return { categories, moments };
    };
    const sum = (moment) => moment.slice(1).reduce((a, b) => a + b, 0);
    const draw = () => {
      const { categories, moments } = unpacked(), width = canvas.clientWidth || box.clientWidth - 18;
      const pen = sized(canvas, width, height + AXIS), plot = width - NAMES;
      const most = Math.max(1, ...moments.map(sum));
      const x = (time) => NAMES + (time - view.from) / Math.max(1, view.to - view.from) * plot;
      const y = (bytes) => height - bytes / most * (height - 10);
      const [muted, grid] = ["muted", "grid"].map(colour), fills = data.categories.map((name, i) => colour("category-" + i));
      for (let part = 0; part <= 4; ++part) {
        pen.fillStyle = grid;
        pen.fillRect(NAMES, y(most * part / 4), plot, 1);
        pen.fillStyle = muted;
        pen.fillText(bytesText(most * part / 4), 0, Math.max(8, y(most * part / 4)), NAMES - 6);
      }
      for (const [at, label] of ticks(view.from, view.to, plot)) {
        pen.fillStyle = muted;
        pen.fillText(label, Math.min(x(at) + 3, width - 60), height + AXIS / 2);
      }
      pen.save();
      pen.beginPath();
      pen.rect(NAMES, 0, plot, height);
      pen.clip();
      const below = moments.map(() => 0);
      categories.forEach((category, k) => {
        pen.fillStyle = fills[category];
        moments.forEach((moment, i) => {
          const end = i + 1 < moments.length ? moments[i + 1][0] : view.length;
          // Whole pixels, so that no seams show between neighbours.
          const left = Math.round(x(moment[0])), high = Math.round(y(below[i] + moment[k + 1]));
          pen.fillRect(left, high, Math.max(Math.round(x(end)) - left, 1), Math.round(y(below[i])) - high);
          below[i] += moment[k + 1];
        });
      });
      pen.restore();
    };
    const change = () => {
      keys.replaceChildren();
      legend(keys, data.categories, "category", new Set(data.memory[select.selectedIndex].categories));
      draw();
    };
    moveBy(box, canvas, view, draw);
    select.addEventListener("change", change);
    canvas.addEventListener("pointermove", (event) => {
      const { categories, moments } = unpacked(), plot = canvas.clientWidth - NAMES;
      const time = view.from + (event.offsetX - NAMES) / plot * (view.to - view.from);
      let at = null;
      for (const moment of moments) { if (moment[0] > time) break; at = moment; }
      if (!at || event.offsetX < NAMES) return showTip(event, "");
      const parts = categories.map((category, k) => [data.categories[category].replace(/_/g, " "), at[k + 1]]);
      showTip(event, [bytesText(sum(at)) + " at " + timeText(time)]
        .concat(parts.filter((part) => part[1] > 0).reverse().map((part) => part[0] + ": " + bytesText(part[1]))).join("\n"));
    });
    canvas.addEventListener("pointerleave", (event) => showTip(event, ""));
    redraws.push(draw);
    change();
  };

  const time = data.time;
  lanes("draw-time", time.lanes.map((lane) => ({ lane: unpack(lane) })),
        { from: 0, to: time.length, length: Math.max(1, time.length) }, time.steps, time.detail);
  if (data.compare) {
    const { predicted, measured } = data.compare, rows = [], length = Math.max(1, predicted.length, measured.length);
    const key = (lane) => lane.rank + " " + lane.queue;
    const others = new Map(predicted.lanes.map((lane) => [key(lane), lane]));
    const pair = (lane, title, isForecast) =>
      rows.push({ lane: unpack(lane), predicted: isForecast, title: "r" + lane.rank + " " + lane.queue + ", " + title });
    for (const lane of measured.lanes) {
      const other = others.get(key(lane));
      if (other) pair(other, predicted.title, true);
      others.delete(key(lane));
      pair(lane, measured.title, false);
    }
    for (const lane of others.values()) pair(lane, predicted.title, true);
    lanes("draw-compare", rows, { from: 0, to: length, length }, [], null);
  }
  memory();
  addEventListener("resize", redrawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
})();
