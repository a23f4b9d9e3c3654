#include "base/check.h"
#include "ops/ops.h"
#include "ops/rows.h"

namespace strobe::ops {

void rms_norm(Exec& exec, const Tensor& x, const Tensor& weight, float epsilon, const Tensor& y) {
  Dims dims("rms_norm");
  int64_t groups = 1;
  if (x.shape().rank() == 3) {
    dims.check("x", x, {"tokens", "groups", "dim"}).check("y", y, {"tokens", "groups", "dim"});
    groups = dims["groups"];
    STROBE_CHECK(groups == 1 || (x.stride(1) == x.dim(2) && y.stride(1) == y.dim(2)), "rms_norm: x {} with gaps",
                 x.shape());
  } else {
    dims.check("x", x, {"tokens", "dim"}).check("y", y, {"tokens", "dim"});
  }
  dims.check("weight", weight, {"dim"});
  exec.kernels().rms_norm({.x = rows_of(x),
                           .weight = weight.as<float>(),
                           .y = rows_of(y),
                           .rows = dims["tokens"],
                           .groups = groups,
                           .dim = dims["dim"],
                           .epsilon = epsilon});
}

void rope(Exec& exec, const RopeTable& table, const Tensor& positions, const Tensor& x) {
  Dims dims("rope");
  dims.check("x", x, {"tokens", "heads", "dim"}).check("positions", positions, {"tokens"});
  dims.check("cos", table.cos, {"table", "half"}).check("sin", table.sin, {"table", "half"});
  STROBE_CHECK(dims["half"] * 2 == dims["dim"], "rope: x {}, cos {}", x.shape(), table.cos.shape());
  exec.kernels().rope({.x = x.as<float>(),
                       .row_stride = x.stride(0),
                       .head_stride = x.stride(1),
                       .positions = positions.as<int32_t>(),
                       .cos = table.cos.as<float>(),
                       .sin = table.sin.as<float>(),
                       .rows = dims["tokens"],
                       .heads = dims["heads"],
                       .dim = dims["dim"],
                       .style = table.style});
}

void silu_mul(Exec& exec, const Tensor& gate, const Tensor& up, const Tensor& y) {
  Dims dims("silu_mul");
  dims.check("gate", gate, {"tokens", "dim"}).check("up", up, {"tokens", "dim"}).check("y", y, {"tokens", "dim"});
  exec.kernels().silu_mul(
      {.gate = rows_of(gate), .up = rows_of(up), .y = rows_of(y), .rows = dims["tokens"], .dim = dims["dim"]});
}

void embed(Exec& exec, const QuantTensor& table, const Tensor& ids, const Tensor& y) {
  Dims dims("embed");
  dims.check("ids", ids, {"tokens"}).check("y", y, {"tokens", "hidden"});
  STROBE_CHECK(dims["hidden"] == table.in, "embed: table [{}, {}], y {}", table.out, table.in, y.shape());
  exec.kernels().embed({.table = table, .ids = ids.as<int32_t>(), .y = rows_of(y), .rows = dims["tokens"]});
}

void copy(Exec& exec, const Tensor& x, const Tensor& y) {
  Dims dims("copy");
  if (x.shape().rank() == 3) {  // [tokens, heads, dim]: evenly spaced heads are rows too
    dims.check("x", x, {"tokens", "heads", "dim"}).check("y", y, {"tokens", "heads", "dim"});
    exec.kernels().copy(
        {.x = flat_rows_of(x), .y = flat_rows_of(y), .rows = dims["tokens"] * dims["heads"], .dim = dims["dim"]});
    return;
  }
  dims.check("x", x, {"tokens", "dim"}).check("y", y, {"tokens", "dim"});
  exec.kernels().copy({.x = rows_of(x), .y = rows_of(y), .rows = dims["tokens"], .dim = dims["dim"]});
}

void gather_rows(Exec& exec, const Tensor& x, const Tensor& rows, const Tensor& y) {
  STROBE_CHECK(x.contiguous(), "gather_rows: x {} with gaps", x.shape());
  // A look-up in a table of f32 rows is what an embedding is.
  const QuantTensor table{.format = WeightFormat::kF32, .out = x.dim(0), .in = x.dim(1), .data = x.as<float>()};
  embed(exec, table, rows, y);
}

void argmax(Exec& exec, const Tensor& logits, const Tensor& ids) {
  Dims dims("argmax");
  dims.check("logits", logits, {"tokens", "vocab"}).check("ids", ids, {"tokens"});
  exec.kernels().argmax({.logits = logits.as<float>(),
                         .stride = logits.stride(0),
                         .ids = ids.as<int32_t>(),
                         .rows = dims["tokens"],
                         .columns = dims["vocab"]});
}

}  // namespace strobe::ops
