// Draws the selected run, and answers pointer and keys. All texts of the report become text nodes, never markup.
"use strict";
(async () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const [chart, picture, cursor, choice, hint, said] = ["chart", "picture", "cursor", "choice", "hint", "said"].map(at);
  const whole = [data.start, data.end];
  // With `ast`, Vega interprets its expressions. Otherwise it would compile them, which the page's policy forbids.
  const options = { mode: "vega", ast: true, renderer: "svg", actions: false, hover: false, tooltip: false };
  const { view } = await vegaEmbed(picture, data.specification, options);
  let run = { t: [], times: [], changes: [], columns: {} }, range = whole, held = null, place = null;

  const clock = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ");
  const number = (value, unit) => value === null ? "no data"
    : (Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)))) + (unit ? " " + unit : "");
  // The index of the last entry at or before a time, -1 if there is none.
  const last = (times, time) => {
    let low = 0, high = times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= time) low = middle + 1; else high = middle;
    }
    return low - 1;
  };
  const frame = () => {
    const panel = picture.querySelector(".concat_0_group .background"), box = panel && panel.getBoundingClientRect();
    return box && { left: box.left - chart.getBoundingClientRect().left, width: box.width || 1 };
  };

  const lines = (time) => {
    const i = last(run.t, time), texts = [clock(time) + " UTC"], columns = run.columns;
    if (i >= 0) {
      texts.push(`demand ${number(columns.demand[i], data.unit)}, capacity ${number(columns.capacity[i], data.unit)}`);
      const usage = columns.usage[i];
      texts.push(`usage ${usage === null ? "no data" : number(100 * usage, "% of the target")}`);
      if (columns.unserved[i] > 0) texts.push(`not served: ${number(columns.unserved[i], data.unit)}`);
      const sizes = data.clusters.map((name, k) => `${name} ${number(columns["n" + k][i])}`);
      texts.push(`replicas: wanted ${number(columns.desired[i])}; ready: ${sizes.join(", ")}`);
    }
    for (const [start, end, name] of data.gaps) if (start <= time && time < end) texts.push(`no data of ${name}`);
    const near = (range[1] - range[0]) / 150;
    for (const [when, text] of data.marks) if (Math.abs(when - time) < near) texts.push(`${clock(when)} ${text}`);
    const k = last(run.times, time);
    texts.push(k < 0 ? "No change of size yet." : change(k));
    return texts;
  };
  const change = (k) => {
    const [when, before, after, reason] = run.changes[k];
    return `${clock(when)}: ${before} → ${after} replicas: ${data.reasons[reason]}`;
  };
  const show = (time) => {
    const box = frame();
    if (!box) return;
    place = Math.min(Math.max(time, range[0]), range[1]);
    const x = box.left + box.width * (place - range[0]) / (range[1] - range[0] || 1);
    cursor.style.display = hint.style.display = "block";
    cursor.style.transform = `translateX(${x}px)`;
    hint.replaceChildren(...lines(place).map((text, i, all) => {
      const line = document.createElement("p");
      line.textContent = text;
      if (i === all.length - 1) line.className = "why";
      return line;
    }));
    const room = chart.clientWidth - hint.offsetWidth;
    const left = Math.max(0, x + 14 <= room ? x + 14 : Math.min(room, x - 14 - hint.offsetWidth));
    hint.style.transform = `translateX(${left}px)`;
  };
  const hide = () => { cursor.style.display = hint.style.display = choice.style.display = "none"; };
  const say = () => { said.textContent = hint.innerText; };

  const zoom = (from, to) => {
    const least = Math.min(60000, whole[1] - whole[0]), middle = (from + to) / 2, half = Math.max(to - from, least) / 2;
    range = [Math.max(whole[0], middle - half), Math.min(whole[1], middle + half)];
    view.signal("from", range[0]).signal("to", range[1]).runAsync();
    at("whole").disabled = range[0] === whole[0] && range[1] === whole[1];
    hide();
  };
  const closer = (factor) => {
    const middle = place !== null && place > range[0] && place < range[1] ? place : (range[0] + range[1]) / 2;
    const half = (range[1] - range[0]) * factor / 2;
    zoom(middle - half, middle + half);
  };
  const select = (index) => {
    run = data.runs[index];
    run.t = run.columns.t;
    run.times = run.changes.map((each) => each[0]);
    view.data("run", [run.columns]);
    view.data("changes", run.changes.map(([t, before, after]) => ({ t, after, up: after > before ? 1 : 0 })));
    at("shown").textContent = run.name;
    for (const days of document.querySelectorAll(".days")) days.hidden = days.dataset.run !== String(index);
    document.body.dataset.run = index;
    return view.runAsync().then(() => { if (hint.style.display === "block") show(place); list(); });
  };
  // The list of changes is long: it is built when it is opened.
  const list = () => {
    if (!at("changes").open) return;
    at("rows").replaceChildren(...run.changes.map(([when, before, after, reason]) => {
      const row = document.createElement("tr");
      for (const text of [clock(when), before, after, data.reasons[reason]]) {
        const cell = row.appendChild(document.createElement("td"));
        cell.textContent = text;
        if (cell.cellIndex === 0 || cell.cellIndex === 3) cell.className = "text";
      }
      return row;
    }));
  };
  const fit = () => view.signal("width", Math.max(280, chart.clientWidth - 62)).runAsync();

  const time = (event) => {
    const box = frame(), x = event.clientX - chart.getBoundingClientRect().left;
    return box ? range[0] + Math.min(Math.max((x - box.left) / box.width, 0), 1) * (range[1] - range[0]) : null;
  };
  chart.addEventListener("pointermove", (event) => {
    const now = time(event);
    if (now === null) return;
    show(now);
    if (held !== null) {
      const box = frame(), [from, to] = [Math.min(held, now), Math.max(held, now)], scale = box.width / (range[1] - range[0]);
      choice.style.display = "block";
      choice.style.left = box.left + (from - range[0]) * scale + "px";
      choice.style.width = (to - from) * scale + "px";
    }
  });
  chart.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.pointerType !== "touch") held = time(event); });
  window.addEventListener("pointerup", (event) => {
    if (held === null) return;
    const from = held, to = time(event);
    held = null;
    choice.style.display = "none";
    if (Math.abs(to - from) > (range[1] - range[0]) / 100) zoom(Math.min(from, to), Math.max(from, to));
  });
  chart.addEventListener("pointerleave", () => { if (held === null) hide(); });
  chart.addEventListener("dblclick", () => zoom(...whole));
  chart.addEventListener("keydown", (event) => {
    const here = place === null ? range[0] - 1 : place, k = last(run.times, here);
    const next = {
      ArrowRight: () => run.times[k + 1], ArrowLeft: () => run.times[last(run.times, here - 1)],
      Home: () => run.times[0], End: () => run.times[run.times.length - 1],
    }[event.key];
    const other = { "+": () => closer(0.5), "-": () => closer(2), "0": () => zoom(...whole), Escape: hide }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !(next || other)) return;
    event.preventDefault();
    if (other) return void other();
    const when = next();
    if (when === undefined) return;
    if (when < range[0] || when > range[1]) {
      const half = (range[1] - range[0]) / 2;
      zoom(when - half, when + half);
    }
    show(when);
    say();
  });
  at("closer").addEventListener("click", () => closer(0.5));
  at("farther").addEventListener("click", () => closer(2));
  at("whole").addEventListener("click", () => zoom(...whole));
  at("changes").addEventListener("toggle", list);
  for (const radio of document.querySelectorAll("input[name=run]")) radio.addEventListener("change", () => select(Number(radio.value)));
  new ResizeObserver(fit).observe(chart);
  const chosen = document.querySelector("input[name=run]:checked");
  if (chosen) await select(Number(chosen.value));
  document.body.dataset.ready = "yes";
})();
