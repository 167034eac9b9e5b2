// Page behaviour beyond htmx: copy buttons, keyboard navigation of the partition map, the charts of scores and lags, forms sent on change.
"use strict";

function showLabel(button, text) {
  const before = button.dataset.says || button.textContent;
  button.dataset.says = before;
  button.textContent = text;
  setTimeout(() => { button.textContent = before; }, 1500);
}

function selectAndCopy(from) {
  const range = document.createRange();
  range.selectNodeContents(from);
  const chosen = getSelection();
  chosen.removeAllRanges();
  chosen.addRange(range);
  return document.execCommand("copy");
}

function copy(button) {
  const from = document.getElementById(button.dataset.copies);
  const fallback = () => { if (selectAndCopy(from)) showLabel(button, "Copied"); };
  if (navigator.clipboard && window.isSecureContext) navigator.clipboard.writeText(from.textContent).then(() => showLabel(button, "Copied"), fallback);
  else fallback();
}

// Copy the response of a URL. If that fails, follow the link to the page that shows it.
function copyFromUrl(link) {
  const asText = () => fetch(link.dataset.fetches).then((answer) => (answer.ok ? answer.text() : Promise.reject(answer.status)));
  showLabel(link, "Generating\u2026");
  asText().then((text) => navigator.clipboard.writeText(text)).then(
    () => {
      showLabel(link, "Copied");
      const status = document.getElementById("fetched");
      if (status) status.textContent = `${link.dataset.says}: copied`;
    },
    () => location.assign(link.href),
  );
}

function showCellLabel(cell) {
  const says = cell.closest("svg").parentElement.querySelector("[data-heat-says]");
  if (says) says.textContent = cell.getAttribute("aria-label");
}

function moveFocus(event) {
  const cell = event.target.closest(".cell");
  if (!cell) return;
  const cells = [...cell.parentElement.querySelectorAll(".cell")];
  const across = cells.filter((one) => one.firstElementChild.getAttribute("y") === "0").length;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
  const at = cells.indexOf(cell);
  const to = event.key === "Home" ? 0 : event.key === "End" ? cells.length - 1 : step ? at + step : -1;
  if (to < 0 || to >= cells.length) return;
  event.preventDefault();
  cell.setAttribute("tabindex", "-1");
  cells[to].setAttribute("tabindex", "0");
  cells[to].focus();
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function drawMarks(chart, at, verdicts) {
  const paint = { match: colour("--match"), mismatch: colour("--mismatch"), unknown: colour("--unknown") };
  const context = chart.ctx;
  const size = 4 * devicePixelRatio;
  chart.data[0].forEach((moment, index) => {
    const x = chart.valToPos(moment, "x", true);
    const y = chart.valToPos(chart.data[1][index], "y", true);
    context.beginPath();
    if (verdicts[index] === "mismatch") {
      context.moveTo(x, y - size * 1.2);
      context.lineTo(x + size * 1.1, y + size * 0.9);
      context.lineTo(x - size * 1.1, y + size * 0.9);
      context.closePath();
    } else if (verdicts[index] === "unknown") {
      context.rect(x - size * 0.8, y - size * 0.8, size * 1.6, size * 1.6);
    } else {
      context.arc(x, y, size * 0.9, 0, 2 * Math.PI);
    }
    context.fillStyle = paint[verdicts[index]] || paint.unknown;
    context.fill();
  });
}

const pad = (number) => String(number).padStart(2, "0");
function utc(seconds) {
  const at = new Date(seconds * 1000);
  return `${at.getUTCFullYear()}-${pad(at.getUTCMonth() + 1)}-${pad(at.getUTCDate())} ${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())} UTC`;
}

function dates(found) {
  return found.map((seconds, index) => {
    const [day, time] = utc(seconds).split(" ");
    const before = index && utc(found[index - 1]).split(" ")[0];
    return found[1] - found[0] >= 86400 ? day : day === before ? time : `${time}\n${day}`;
  });
}

function chartAxis() {
  return { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
}

// What the charts over time have in common: "axis" adds to the axis of values, and "says" tells what is at a place of the series.
function chartOptions(place, axis, says) {
  const below = document.getElementById("chart-says");
  return {
    width: place.clientWidth,
    height: place.clientHeight,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    axes: [{ ...chartAxis(), space: 90, values: (_, found) => dates(found) }, { ...chartAxis(), ...axis }],
    hooks: {
      setCursor: [(chart) => {
        const at = chart.cursor.idx;
        if (at !== null && at !== undefined) below.textContent = says(at);
      }],
    },
  };
}

function drawChart(place) {
  const series = JSON.parse(place.dataset.series);
  const least = Math.min(1, ...series.score, ...series.lower.filter((one) => one !== null));
  const low = least === 1 ? 0 : Math.max(0, least - (1 - least) * 0.15);
  const axis = { size: 76, values: (_, found) => found.map((one) => (one > 1 ? "" : String(Number(one.toPrecision(7))))) };
  const common = chartOptions(place, axis, (at) => {
    const between = series.lower[at] === series.upper[at] ? "exact" : `${series.lower[at]} to ${series.upper[at]}`;
    return `${utc(series.at[at])}: ${series.verdict[at]}, ${series.score[at]} (${between})`;
  });
  const options = {
    ...common,
    scales: { y: { range: [low, 1 + (1 - low) * 0.06] } },
    series: [
      {},
      { stroke: colour("--spark"), width: 2, points: { show: false } },
      { stroke: "transparent", points: { show: false } },
      { stroke: "transparent", points: { show: false } },
    ],
    bands: [{ series: [3, 2], fill: colour("--band") }],
    hooks: { ...common.hooks, draw: [(chart) => drawMarks(chart, series.at, series.verdict)] },
  };
  place.replaceChildren();
  place.chart = new uPlot(options, [series.at, series.score, series.lower, series.upper], place);
  place.chart.over.addEventListener("click", () => {
    const at = place.chart.cursor.idx;
    if (at !== null && at !== undefined) location.assign(series.run[at]);
  });
}

function shortDuration(seconds) {
  const unit = seconds < 60 ? [1, "s"] : seconds < 3600 ? [60, "min"] : seconds < 86400 ? [3600, "h"] : [86400, "d"];
  return `${Number((seconds / unit[0]).toPrecision(3))} ${unit[1]}`;
}

const LAG_STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000];

// The lag over time; the limit from which channels are told is drawn once the lag comes near it.
function drawLag(place) {
  const history = JSON.parse(place.dataset.lag);
  const most = Math.max(1, ...history.seconds.filter((one) => one !== null));
  const shown = most > history.limit / 3;
  const axis = { size: 62, incrs: LAG_STEPS, values: (_, found) => found.map(shortDuration) };
  const options = {
    ...chartOptions(place, axis, (at) => (history.says[at] ? `${utc(history.at[at])}: ${history.says[at]}` : "")),
    scales: { x: { range: [history.from, history.to] }, y: { range: [0, Math.max(most, shown ? history.limit : 0) * 1.08] } },
    series: [
      {},
      { stroke: colour("--spark"), fill: colour("--band"), width: 2, points: { size: 4, fill: colour("--spark") } },
      { stroke: colour("--mismatch"), width: 1.5, dash: [6, 5], points: { show: false }, show: shown },
    ],
  };
  place.replaceChildren();
  place.chart = new uPlot(options, [history.at, history.seconds, history.at.map(() => history.limit)], place);
}

function draw() {
  const place = document.getElementById("chart");
  if (place && window.uPlot) (place.dataset.lag ? drawLag : drawChart)(place);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copies]");
  if (button) copy(button);
  const link = event.target.closest("[data-fetches]");
  if (link && navigator.clipboard && window.isSecureContext) {
    event.preventDefault();
    copyFromUrl(link);
  }
  // A click elsewhere closes the open explanation.
  document.querySelectorAll("details.what[open]").forEach((one) => { if (!one.contains(event.target)) one.open = false; });
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") document.querySelectorAll("details.what[open]").forEach((one) => { one.open = false; one.firstElementChild.focus(); });
  moveFocus(event);
});
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.submit();
});
for (const kind of ["focusin", "pointerover"]) {
  document.addEventListener(kind, (event) => {
    const cell = event.target.closest && event.target.closest(".cell");
    if (cell) showCellLabel(cell);
  });
}
function setOffline(offline) {
  const notice = document.getElementById("offline");
  if (notice) notice.hidden = !offline;
}
document.addEventListener("htmx:sendError", () => setOffline(true));
document.addEventListener("htmx:afterOnLoad", () => setOffline(false));
// A page that shows a running run retries after an error.
for (const kind of ["htmx:sendError", "htmx:responseError"]) {
  document.addEventListener(kind, (event) => {
    if (event.detail.elt.id === "run") setTimeout(() => htmx.ajax("GET", event.detail.elt.getAttribute("hx-get"), { target: "#run", swap: "outerHTML" }), 3000);
  });
}
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(draw, 150); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", draw);
else draw();
