#include "measure/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "measure/files.h"

namespace strobe::measure {
namespace {

constexpr double kWidth = 640, kHeight = 360;
constexpr double kLeft = 70, kRight = 20, kTop = 40, kBottom = 50;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr int kGridLines = 5;
constexpr double kLegendStep = 110;
constexpr std::array kColours = {"#2f7fd1", "#d1602f", "#3a9a52", "#9357c0", "#b8952a", "#3aa6a6"};

const char* colour(size_t series) {
  return kColours[series % kColours.size()];
}

std::string text(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_markup(words));
}

class Drawing {
 public:
  explicit Drawing(const Plot& plot) : plot_(plot), end_(plot.y_max) {
    double largest = 0;
    for (const PlotSeries& series : plot.series) {
      for (const double value : series.values) largest = std::max(largest, value);
    }
    if (end_ <= 0) end_ = scale_end(largest);
  }

  std::string draw() {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n"
        "<style>text{{font:12px system-ui,sans-serif;fill:#444}}.grid{{stroke:#8884}}"
        "@media(prefers-color-scheme:dark){{text{{fill:#ccc}}}}</style>\n",
        kWidth, kHeight);
    out_ += fmt::format("<title>{0}</title>\n<text x=\"{1}\" y=\"20\" style=\"font-size:15px\">{0}</text>\n",
                        escape_markup(plot_.title), kLeft);
    grid();
    for (size_t s = 0; s < plot_.series.size(); ++s) {
      plot_.bars ? bars(s) : line(s);
      legend(s);
    }
    return out_ + "</svg>\n";
  }

 private:
  [[nodiscard]] double step() const {
    return kPlotWidth / static_cast<double>(std::max<size_t>(plot_.labels.size(), 1));
  }
  [[nodiscard]] double x(size_t label) const { return kLeft + step() * (static_cast<double>(label) + 0.5); }
  [[nodiscard]] double y(double value) const { return kTop + kPlotHeight * (1 - std::clamp(value / end_, 0.0, 1.0)); }

  void grid() {
    for (int i = 0; i <= kGridLines; ++i) {
      const double value = end_ * i / kGridLines;
      out_ += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kLeft,
                          kWidth - kRight, y(value), y(value));
      out_ += text(kLeft - 8, y(value) + 4, "end", fmt::format("{:.4g}", value));
    }
    for (size_t i = 0; i < plot_.labels.size(); ++i)
      out_ += text(x(i), kHeight - kBottom + 18, "middle", plot_.labels[i]);
    out_ += text(kLeft + kPlotWidth / 2, kHeight - 10, "middle", plot_.x_name);
    out_ += fmt::format("<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                        kTop + kPlotHeight / 2, escape_markup(plot_.y_name));
  }

  void line(size_t s) {
    std::string points;
    const auto& values = plot_.series[s].values;
    for (size_t i = 0; i < values.size(); ++i) points += fmt::format("{:.1f},{:.1f} ", x(i), y(values[i]));
    out_ +=
        fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"/>\n", colour(s), points);
    for (size_t i = 0; i < values.size(); ++i) {
      out_ +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"><title>{}: {:.4g}</title></circle>\n",
                      x(i), y(values[i]), colour(s), escape_markup(plot_.labels[i]), values[i]);
    }
  }

  void bars(size_t s) {
    const double width = step() * 0.8 / static_cast<double>(plot_.series.size());
    const auto& values = plot_.series[s].values;
    for (size_t i = 0; i < values.size(); ++i) {
      const double left = x(i) - step() * 0.4 + width * static_cast<double>(s);
      out_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"><title>{}: "
          "{:.4g}</title></rect>\n",
          left, y(values[i]), width, kTop + kPlotHeight - y(values[i]), colour(s), escape_markup(plot_.labels[i]),
          values[i]);
    }
  }

  void legend(size_t s) {
    if (plot_.series.size() < 2) return;
    const double left = kLeft + kLegendStep * static_cast<double>(s);
    out_ += fmt::format("<rect x=\"{:.1f}\" y=\"27\" width=\"10\" height=\"10\" fill=\"{}\"/>\n", left, colour(s));
    out_ += text(left + 15, 36, "start", plot_.series[s].name);
  }

  const Plot& plot_;
  double end_;
  std::string out_;
};

}  // namespace

double scale_end(double largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  const double power = std::pow(10, std::floor(std::log10(largest)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (largest <= step * power) return step * power;
  }
  return 10 * power;
}

std::string to_svg(const Plot& plot) {
  return Drawing(plot).draw();
}

}  // namespace strobe::measure
