"use strict";
(() => {
  const root = document.documentElement;
  const plots = [...document.querySelectorAll(".plot")];
  const PRINT_WIDTH = 660; // A4 and Letter less their margins, in CSS pixels.
  const narrow = () => window.innerWidth < 640;

  // ---- unpacking: gzip + base64, as embed.py packs it

  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // ---- figures

  function colours() {
    const style = getComputedStyle(root);
    const named = (name) => style.getPropertyValue("--" + name).trim();
    const series = [];
    for (let index = 0; named("series-" + index); index++) series.push(named("series-" + index));
    return { named, dark: isDark(), series: (index) => series[(index || 0) % series.length] };
  }

  const faint = (colour, share) => colour + Math.round(share * 255).toString(16).padStart(2, "0");

  function styled(trace, theme) {
    const meta = trace.meta || {};
    const colour = meta.role === "reference" ? theme.named("reference") : theme.series(meta.colour);
    const errors = (found) => found && { ...found, color: colour, thickness: 1.6, width: 4 };
    const own = { ...trace, error_x: errors(trace.error_x), error_y: errors(trace.error_y) };
    if (trace.type === "bar") {
      const fill = meta.role === "reference" ? faint(colour, 0.45) : colour;
      const ink = theme.named("ink");
      if (own.error_x) own.error_x = { ...own.error_x, color: ink };
      return { ...own, marker: { color: fill, line: { width: 0 } }, textfont: { color: ink } };
    }
    if (meta.role === "samples") return { ...own, marker: { color: faint(colour, theme.dark ? 0.5 : 0.32), size: 4, line: { width: 0 } } };
    if (meta.role === "mark") return { ...own, line: { color: theme.named("soft"), width: 1.2, dash: "dot" } };
    if (meta.role === "estimate") {
      const ink = theme.named("ink");
      return { ...own, error_x: { ...trace.error_x, color: ink, thickness: 2, width: 6 }, marker: { color: ink, size: 9, symbol: "diamond", line: { color: theme.named("card"), width: 1.5 } } };
    }
    return { ...own, line: { ...trace.line, color: colour, width: 2 }, marker: { color: colour, size: 7, symbol: meta.symbol || (meta.role === "reference" ? "x" : "circle") } };
  }

  // Ticks of a log axis as whole numbers ("20 50 100"; Plotly by itself writes "2 5 100"): at 1, 2 and 5 where a decade has the room, or at the powers of ten.
  // Within less than a decade Plotly chooses. SI prefixes from 1 up; below, "m" might be read as minutes.
  function logTicks(found, values, size, room) {
    const positive = values.filter((value) => value > 0);
    if (!positive.length) return {};
    const [low, high] = found.range || [Math.log10(Math.min(...positive)), Math.log10(Math.max(...positive))];
    const decades = high - low;
    const ticks = decades < 0.7 ? {} : { dtick: size / decades < room ? 1 : "D2" };
    return { ...ticks, tickformat: low < 0 ? "~r" : "~s", minor: { dtick: "D1", showgrid: false } };
  }

  function arranged({ traces, layout }, theme, size) {
    const ink = theme.named("ink"), soft = theme.named("soft"), grid = theme.named("grid");
    const room = { x: [size.width - 120, 130], y: [size.height - 100, 50] };
    const axis = (found, letter) => ({
      gridcolor: grid, linecolor: grid, zerolinecolor: theme.named("line"), tickfont: { color: ink }, automargin: true, fixedrange: narrow(),
      ...(found && found.type === "log" ? logTicks(found, traces.flatMap((trace) => trace[letter] || []), ...room[letter]) : {}),
      ...found, title: { ...(found || {}).title, font: { color: soft, size: 12.5 }, standoff: 10 },
    });
    return {
      ...layout, xaxis: axis(layout.xaxis, "x"), yaxis: axis(layout.yaxis, "y"), paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow() ? 11 : 12.5, color: ink },
      margin: { l: 8, r: 14, t: layout.showlegend ? 70 : 28, b: 48 }, bargap: 0.28, bargroupgap: 0.08, hovermode: "closest",
      legend: { orientation: "h", traceorder: "normal", x: 0, y: 1, yanchor: "bottom", xanchor: "left", font: { color: ink } },
      hoverlabel: { bgcolor: theme.named("card"), bordercolor: theme.named("line"), font: { color: ink } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: theme.named("accent"), orientation: "h" },
      dragmode: narrow() ? false : "zoom",
    };
  }

  let figures = [];
  // A figure, or its place among those that the page has packed.
  function figureOf(place) {
    const found = JSON.parse(place.querySelector("script").textContent);
    return typeof found === "number" ? figures[found] : found;
  }
  const visible = (place) => !place.closest("details:not([open])");
  const stale = new Set(plots); // Not drawn in the theme and at the width of the page.

  function drawOne(place, theme, size) {
    const figure = figureOf(place);
    const canvas = place.querySelector(".canvas");
    const room = { width: canvas.clientWidth, height: figure.layout.height || 450, ...size };
    return window.Plotly.react(canvas, figure.traces.map((trace) => styled(trace, theme)), { ...arranged(figure, theme, room), ...size },
      { responsive: true, displaylogo: false, displayModeBar: narrow() ? false : "hover", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] });
  }

  let drawing = 0;
  const near = (place) => { const box = place.getBoundingClientRect(); return box.top < 2 * window.innerHeight && box.bottom > -window.innerHeight; };

  async function drawEach(places, own) {
    const theme = colours();
    const left = new Set(places.filter(visible));
    while (left.size) {
      if (own !== drawing) return;
      const place = [...left].find(near) || left.values().next().value;
      left.delete(place);
      if (!stale.delete(place)) continue;
      await drawOne(place, theme, {});
      await new Promise((next) => setTimeout(next, 0));
    }
  }

  // What the reader sees comes first, also after scrolling; `drawn` says that all has come that is not folded.
  async function draw(again = true) {
    const own = ++drawing;
    if (again) plots.forEach((place) => stale.add(place));
    await drawEach(plots, own);
    if (own === drawing) root.dataset.drawn = root.dataset.theme || "auto";
  }

  // What is folded has no width: it is drawn when it opens.
  document.addEventListener("toggle", (event) => {
    if (!event.target.open || !window.Plotly) return;
    if (event.target.matches(".data")) tabulate(event.target);
    drawEach([...event.target.querySelectorAll(".plot")], drawing);
  }, true);

  // A link into what is folded opens it.
  function unfold() {
    let found = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (; found; found = found.parentElement) if (found.tagName === "DETAILS") found.open = true;
  }
  window.addEventListener("hashchange", unfold);

  // ---- a figure's data, as a table

  function rowsOf(figure) {
    const named = (axis, value) => {
      const index = ((axis || {}).tickvals || []).indexOf(value);
      return index < 0 ? value : axis.ticktext[index];
    };
    const rows = [];
    for (const trace of figure.traces) {
      if ((trace.meta || {}).role === "samples") continue;
      const across = trace.orientation === "h" || Boolean(trace.error_x);
      const [values, labels, errors] = across ? [trace.x, trace.y, trace.error_x] : [trace.y, trace.x, trace.error_y];
      values.forEach((value, index) => {
        if (value === null) return;
        const axis = across ? figure.layout.yaxis : figure.layout.xaxis;
        const ends = errors && errors.array ? [value - errors.arrayminus[index], value + errors.array[index]].map((end) => Number(end.toPrecision(5))) : ["", ""];
        rows.push([trace.name || "", trace.mode === "markers" && trace.text ? trace.text[index] : named(axis, labels[index]), value, ...ends]);
      });
    }
    const title = (axis) => ((axis || {}).title || {}).text || "";
    const across = figure.traces.some((trace) => trace.orientation === "h" || trace.error_x);
    const [value, label] = across ? [title(figure.layout.xaxis), title(figure.layout.yaxis)] : [title(figure.layout.yaxis), title(figure.layout.xaxis)];
    return [["series", label || "of", value || "value", "95 % interval from", "to"], ...rows];
  }

  function tabulate(details) {
    if (details.childElementCount > 1) return;
    const figure = details.closest("figure"), rows = rowsOf(figureOf(figure.querySelector(".plot")));
    const table = document.createElement("table"), scroll = document.createElement("div"), save = document.createElement("button");
    rows.forEach((row, index) => {
      const line = (index ? table.tBodies[0] || table.createTBody() : table.createTHead()).insertRow();
      row.forEach((text, column) => {
        const cell = line.appendChild(document.createElement(index ? "td" : "th"));
        cell.textContent = text;
        if (column > 1) cell.className = "n";
      });
    });
    scroll.className = "scroll tall";
    scroll.append(table);
    save.type = "button";
    save.textContent = "Save as CSV";
    save.addEventListener("click", () => {
      const text = rows.map((row) => row.map((cell) => quoted(String(cell))).join(",")).join("\n") + "\n";
      saveAs(new Blob([text], { type: "text/csv" }), "oscope-" + figure.querySelector("h4").textContent.replace(/[^\w.-]+/g, "-") + ".csv");
    });
    details.append(scroll, save);
  }

  function saveAs(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  // ---- light and dark

  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const button = document.getElementById("theme");
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); draw(); });
  prefersDark.addEventListener("change", () => { label(); draw(); });
  // On paper: prose, figures and tables of the labs. Tables of many rows stay closed, and what repeats a measurement.
  const closed = () => [...document.querySelectorAll("main details:not(.data):not(.repeat):not(.clock):not([open])")].filter((found) => !found.matches(".table > details"));
  // What report.css hides on paper.
  const hidden = ".repeat, .clock, #experiments article, #data, details:not([open])";
  let before, opened = [];
  // The page is printed when the listener returns, so nothing may be left for later; the paper's width is not known yet.
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    opened = closed();
    opened.forEach((found) => { found.open = true; });
    if (!window.Plotly) return;
    drawing++;
    const theme = colours();
    for (const place of plots.filter((found) => !found.closest(hidden))) {
      stale.add(place);
      drawOne(place, theme, { width: PRINT_WIDTH, autosize: false });
    }
  });
  window.addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before; else delete root.dataset.theme;
    opened.forEach((found) => { found.open = false; });
    if (window.Plotly) draw();
  });
  label();

  // ---- the data: columns back to samples, as embed.py's `decode` does it

  function folded(bytes, planes, rows) {
    const found = new Float64Array(rows), wide = planes > 6 ? new BigInt64Array(rows) : null;
    for (let row = 0; row < rows; row++) {
      if (wide) {
        let value = 0n;
        for (let plane = planes - 1; plane >= 0; plane--) value = (value << 8n) | BigInt(bytes[plane * rows + row]);
        wide[row] = value & 1n ? -((value + 1n) >> 1n) : value >> 1n;
      } else {
        let value = 0;
        for (let plane = planes - 1; plane >= 0; plane--) value = value * 256 + bytes[plane * rows + row];
        found[row] = value % 2 ? -(value + 1) / 2 : value / 2;
      }
    }
    return wide || found;
  }

  function whole(column, differences) {
    const first = BigInt(column.first), rows = differences.length, limit = BigInt(Number.MAX_SAFE_INTEGER);
    const large = first > limit || first < -limit || differences instanceof BigInt64Array;
    const values = large ? new BigInt64Array(rows) : new Float64Array(rows), number = large ? BigInt : Number;
    let base = number(first);
    for (let row = 0; row < rows; row++) {
      values[row] = base + number(differences[row]);
      if (column.kind === "steps") base = values[row];
    }
    return values;
  }

  function each(found) {
    const number = (name) => found.get(name), rows = number("raw").length, values = new Float64Array(rows);
    for (let row = 0; row < rows; row++) values[row] = (number("raw")[row] - number("correction")[row]) / number("iterations")[row];
    return values;
  }

  function float(column, misses, found, runs) {
    const values = new Float64Array(misses.length), bits = new BigInt64Array(values.buffer);
    if (column.base !== null) {
      const base = column.base === "each" ? each(found) : found.get(column.base);
      let row = 0;
      runs.forEach((length, run) => { for (const end = row + length; row < end; row++) values[row] = base[row] * column.ratios[run]; });
    }
    for (let row = 0; row < misses.length; row++) {
      if (column.base !== null && Number.isNaN(values[row])) bits[row] = 0x7ff8000000000000n;
      if (misses[row] != 0) bits[row] += BigInt(misses[row]);
    }
    return values;
  }

  async function columnsOf(data) {
    const { header, payload } = data, found = new Map();
    for (const [index, column] of header.columns.entries()) {
      if (column.kind === "constant") {
        found.set(column.name, new Float64Array(header.rows).fill(column.value === null ? NaN : column.value));
        continue;
      }
      const differences = folded(await unpacked(payload[index]), column.planes, header.rows);
      found.set(column.name, column.kind === "float" ? float(column, differences, found, header.runs) : whole(column, differences));
    }
    return found;
  }

  const quoted = (text) => (/[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);

  const written = (value) => (Number.isNaN(value) ? "" : Object.is(value, -0) ? "-0" : String(value));

  async function csv(data) {
    const { header } = data, found = await columnsOf(data);
    const factors = header.points.length ? Object.keys(header.points[0].factors) : [];
    const columns = [...found.values()], failed = new Map(header.failed);
    const parts = [[...factors, ...found.keys(), "failed"].map(quoted).join(",") + "\n"];
    let row = 0;
    for (const point of header.points) {
      const levels = factors.map((name) => quoted(String(point.factors[name]))).map((text) => text + ",").join("");
      let text = "";
      for (const end = row + point.rows; row < end; row++) {
        text += levels;
        for (const column of columns) text += written(column[row]) + ",";
        text += (failed.has(row) ? quoted(failed.get(row)) : "") + "\n";
        if (text.length > 1 << 20) { parts.push(text); text = ""; }
      }
      parts.push(text);
    }
    return new Blob(parts, { type: "text/csv" });
  }

  for (const found of document.querySelectorAll("button[data-samples]")) {
    found.addEventListener("click", async () => {
      found.disabled = true;
      try {
        const data = JSON.parse(document.getElementById(found.dataset.samples).textContent);
        saveAs(await csv(data), found.dataset.file);
      } finally {
        found.disabled = false;
      }
    });
  }

  // ---- start

  // A page of `oscope view` has loaded Plotly by itself, and draws more figures as they come.
  window.oscope = { draw: (place) => drawOne(place, colours(), {}) };
  if (window.Plotly) { draw(); return; }

  (async () => {
    // An open inner document holds back the page's load event, for which a browser that prints unattended waits.
    const hold = document.createElement("iframe");
    hold.hidden = true;
    document.body.append(hold);
    hold.contentDocument.open();
    try {
      const script = document.createElement("script");
      script.textContent = new TextDecoder().decode(await unpacked(document.getElementById("plotly").textContent));
      document.head.append(script);
      figures = JSON.parse(new TextDecoder().decode(await unpacked(document.getElementById("figures").textContent)));
      unfold();
      // The rest is drawn while the page is read, or all at once when it is printed.
      await drawEach(plots.filter(near), ++drawing);
    } finally {
      hold.contentDocument.close();
      hold.remove();
    }
    await draw(false);
  })();
})();
