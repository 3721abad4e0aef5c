"use strict";
// The slider over the snapshots: shows one frame, hides the others.
(() => {
  const slider = document.getElementById("moment");
  if (!slider) return;
  const frames = [...document.querySelectorAll(".frames img")];
  const output = document.querySelector("output[for=moment]");
  const button = document.getElementById("play");
  const show = () => {
    const at = Number(slider.value);
    frames.forEach((frame, k) => { frame.hidden = k !== at; });
    output.textContent = frames[at].dataset.name;
    slider.setAttribute("aria-valuetext", frames[at].dataset.name);
  };
  slider.addEventListener("input", () => { stop(); show(); });
  let timer = null;
  const stop = () => { clearInterval(timer); timer = null; button.textContent = "Play"; };
  button.addEventListener("click", () => {
    if (timer) { stop(); return; }
    if (Number(slider.value) === frames.length - 1) slider.value = 0;
    show();
    button.textContent = "Stop";
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      show();
      if (Number(slider.value) >= frames.length - 1) stop();
    }, 600);
  });
})();
// Charts: the values at the epoch under the pointer, or under the arrow keys.
for (const chart of document.querySelectorAll("figure.chart")) {
  const [first, last, left, right, width] = chart.dataset.x.split(",").map(Number);
  const svg = chart.querySelector("svg"), cursor = chart.querySelector(".cursor"), label = chart.querySelector(".at");
  const keys = [...chart.querySelectorAll("li")].map((item) => ({
    text: item.querySelector("b"), final: item.querySelector("b").textContent,
    values: item.dataset.values.split(";").map((pair) => [Number(pair.split(":")[0]), pair.split(":")[1]]),
  }));
  const epochs = [...new Set(keys.flatMap((key) => key.values.map(([x]) => x)))].sort((a, b) => a - b);
  let at = epochs.length - 1;
  const show = (k) => {
    at = Math.max(0, Math.min(k, epochs.length - 1));
    const x = left + (epochs[at] - first) / ((last - first) || 1) * (right - left);
    cursor.setAttribute("x1", x); cursor.setAttribute("x2", x);
    chart.classList.add("reading");
    label.textContent = "· epoch " + epochs[at];
    for (const key of keys) {
      const found = key.values.findLast(([x]) => x <= epochs[at]); // between two evaluations, the earlier one
      const since = found && found[0] !== epochs[at] ? " (epoch " + found[0] + ")" : "";
      key.text.textContent = found ? found[1] + since : "–";
    }
  };
  const leave = () => {
    chart.classList.remove("reading"); label.textContent = ""; at = epochs.length - 1;
    for (const key of keys) key.text.textContent = key.final;
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * width;
    const epoch = first + (x - left) / (right - left) * (last - first);
    let best = 0;
    epochs.forEach((value, k) => { if (Math.abs(value - epoch) < Math.abs(epochs[best] - epoch)) best = k; });
    show(best);
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) { event.preventDefault(); show(at + step); }
    if (event.key === "Escape") leave();
  });
}
