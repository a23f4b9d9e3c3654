// Plots as SVG text that stands alone: light and dark, no scripts, nothing from elsewhere.
#pragma once

#include <string>
#include <vector>

namespace strobe::measure {

struct PlotSeries {
  std::string name;
  std::vector<double> values;  // one a label
};

struct Plot {
  std::string title;
  std::string x_name;
  std::string y_name;
  std::vector<std::string> labels;  // along x, evenly spaced
  std::vector<PlotSeries> series;
  bool bars = false;  // else lines with points
  double y_max = 0;   // 0: from the values
};

[[nodiscard]] std::string to_svg(const Plot& plot);

// The end of the scale for values up to `largest`: 1, 2 or 5 times a power of ten.
[[nodiscard]] double scale_end(double largest);

}  // namespace strobe::measure
