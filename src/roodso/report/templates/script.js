
"use strict";
(() => {
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
  const source = document.getElementById("price-data");
  if (!source) return;
  const stops = JSON.parse(source.textContent);
  const slider = document.getElementById("price-slider");
  const mark = document.getElementById("price-mark");
  const parts = document.querySelectorAll("#price-control [data-part]");
  const show = () => {
    const stop = stops[Number(slider.value)];
    document.getElementById("price-value").textContent = stop.value;
    document.getElementById("price-worst").textContent = stop.worst;
    parts.forEach((part, place) => { part.textContent = stop.amounts[place]; });
    slider.setAttribute("aria-valuetext", stop.value + ": " + stop.worst);
    mark.setAttribute("transform", "translate(" + stop.at + " 0)");
  };
  slider.addEventListener("input", show);
  document.getElementById("price-control").hidden = false;
  show();
})();
