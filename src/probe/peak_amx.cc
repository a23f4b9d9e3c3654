#include "kernel/cpu/amx/tiles.h"
#include "probe/peak.h"

namespace strobe::probe::amx {

double compute_peak(int64_t rounds) {
  using namespace strobe::kernel::amx;
  configure_tiles({.first = 16, .second = 16});
  for (int64_t i = 0; i < rounds; ++i) {
    tile_multiply<0, 4, 6>();
    tile_multiply<1, 4, 7>();
    tile_multiply<2, 5, 6>();
    tile_multiply<3, 5, 7>();
  }
  release_tiles();
  return static_cast<double>(rounds) * 4 * 16 * 16 * 32 * 2;
}

}  // namespace strobe::probe::amx
