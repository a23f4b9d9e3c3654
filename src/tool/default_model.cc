#include <array>
#include <filesystem>

#include "tool/command_line.h"

namespace strobe::tool {
namespace {

// Where the model that comes with the program may lie: beside an installed program, or in the source tree.
std::filesystem::path find_pocket() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::array<std::filesystem::path, 3> places = {program / "models/pocket-k2",
                                                       program / "../share/strobe/models/pocket-k2",
                                                       std::filesystem::path(STROBE_MODELS_DIR) / "pocket-k2"};
  for (const auto& place : places) {
    if (std::filesystem::exists(place / "target/config.json", ignored)) return place;
  }
  return {};
}

}  // namespace

void default_to_pocket(EngineOptions& options) {
  if (!options.model_path.empty()) return;
  const auto pocket = find_pocket();
  if (pocket.empty()) return;
  options.model_path = pocket / "target";
  if (options.speculative_algorithm.empty() && options.speculative_draft_model_path.empty()) {
    options.speculative_algorithm = "DFLASH";
    options.speculative_draft_model_path = pocket / "draft";
  }
}

}  // namespace strobe::tool
