// What a run of the CUDA benchmark measured: printed as it comes, written as one JSON file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "graph_timer.h"

namespace strobe::bench {

// What a case must do at least. The larger of the two times is the floor.
struct Work {
  double bytes = 0;  // each input read once, each output written once
  double flops = 0;  // a multiply-add counts two
};

class Report {
 public:
  // The ceilings that shares are of: a device copy's GB/s (read and written), and the matrix product's TFLOP/s, which
  // is given, not measured (cuBLAS is not linked).
  Report(double copy_gb_s, double tflop_s) : copy_gb_s_(copy_gb_s), tflop_s_(tflop_s) {}

  // `facts`: what else belongs to the case (errors, target), as a JSON object.
  void add(const std::string& name, const GraphTiming& timing, const Work& work,
           nlohmann::json facts = nlohmann::json::object());
  // The cases with the machine, the date and the command.
  [[nodiscard]] nlohmann::json json(const std::string& command) const;

 private:
  double copy_gb_s_;
  double tflop_s_;
  nlohmann::json cases_ = nlohmann::json::array();
};

}  // namespace strobe::bench
