// strobe bench kernel: every kernel on the shapes of the models that matter, beside the machine's ceilings.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernel/cuda_device.h"
#include "measure/files.h"
#include "probe/kernel_cases.h"
#include "tool/measuring.h"

namespace strobe::tool {
namespace {

using nlohmann::ordered_json;

struct BenchKernelOptions {
  std::string device = "cpu";
  int32_t base_gpu_id = 0;
  std::string cpu_isa = "auto";
  int32_t threads = 0;
  std::string model = "all";
  std::string filter;
  double seconds = 0.1;
  std::string output;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("--device", device, "cpu | cuda: whose kernels");
    v("--base-gpu-id", base_gpu_id, "the GPU that is used, from 0");
    v("--cpu-isa", cpu_isa, "auto | ref | portable | avx2 | avx512 | avx512_vnni | avx512_fp16 | amx");
    v("--threads", threads, "worker threads; 0: one a processor");
    v("--model", model, "all, or the shapes of one: pocket-k2 | smollm2-135m | kimi-k2 (one layer, 1 GiB of weights)");
    v("--filter", filter, "only cases whose name contains this: gemm, mla, 8 experts");
    v("--seconds", seconds, "how long a case is timed");
    v("--output", output, "NAME: the results go to NAME.json and NAME.md; default: they are only printed");
  }
};

// What is measured, and what it is held against.
struct Bench {
  std::unique_ptr<WorkerPool> pool;
  std::unique_ptr<kernel::Kernels> kernels;
  std::unique_ptr<kernel::Kernels> reference;
  std::string machine;
  std::string table;
  probe::Ceilings ceilings;
};

Result<std::vector<probe::KernelCase>> chosen_cases(const BenchKernelOptions& o) {
  std::vector<probe::KernelCase> cases;
  std::string names;
  bool known = false;
  for (const probe::ModelShapes& shapes : probe::model_shapes()) {
    names += ", " + shapes.name;
    if (o.model != "all" && o.model != shapes.name) continue;
    known = true;
    for (probe::KernelCase& one : probe::kernel_cases(shapes)) {
      if (one.name.find(o.filter) != std::string::npos) cases.push_back(std::move(one));
    }
  }
  if (!known) return error("--model {}: accepted: all{}", o.model, names);
  if (cases.empty()) {
    return error(
        "--filter {}: no case has this in its name; names begin with gemm, mla, gqa, prompt, rms_norm, rope, silu_mul, "
        "route, combine, store_rows, load_rows, embed or argmax",
        o.filter);
  }
  return cases;
}

Result<void> check(const BenchKernelOptions& o) {
  if (o.device != "cpu" && o.device != "cuda") return error("--device {}: accepted: cpu, cuda", o.device);
  if (o.base_gpu_id < 0) return error("--base-gpu-id {}: accepted: 0 and more", o.base_gpu_id);
  if (o.threads < 0 || o.threads > 1024) return error("--threads {}: accepted: 0 (one a processor) to 1024", o.threads);
  if (!(o.seconds >= 0 && o.seconds <= 60)) return error("--seconds {}: accepted: 0 to 60", o.seconds);
  if (o.device == "cuda" && o.cpu_isa != "auto") return error("--cpu-isa {}: not with --device cuda", o.cpu_isa);
  const std::string folder = std::filesystem::path(o.output).parent_path();
  return folder.empty() ? Result<void>() : measure::make_folder("--output", folder);
}

Result<Bench> open_bench(const BenchKernelOptions& o) {
  Bench b;
  const unsigned processors = std::max(1U, std::thread::hardware_concurrency());
  b.pool = std::make_unique<WorkerPool>(o.threads == 0 ? static_cast<int>(processors) : o.threads);
  b.reference = std::make_unique<kernel::HostKernels>(*b.pool, kernel::ref_kernels());
  if (o.device == "cuda") {
    const auto info = kernel::find_cuda_device(o.base_gpu_id);
    if (!info) return error("--device cuda: {}", info.error().message);
    b.kernels = kernel::open_cuda_device(o.base_gpu_id);
    b.kernels->reserve({.rows = 1024, .requests = 64, .heads = 64});
    b.machine = info->name;
    b.table = "cuda " + info->kernels;
    return b;
  }
  const auto table = kernel::find_cpu_kernels(o.cpu_isa);
  if (!table) return error("--cpu-isa {}", table.error().message);
  b.kernels = std::make_unique<kernel::HostKernels>(*b.pool, **table);
  b.table = (*table)->name;
  b.machine = fmt::format("{}, {} threads", cpu_name(), b.pool->workers());
  return b;
}

probe::Ceilings measure_ceilings(const BenchKernelOptions& o, Bench& b) {
  if (o.device == "cuda") return probe::measure_device_ceilings(*b.kernels);
  const auto isa = parse_cpu_isa(b.table);
  return probe::measure_cpu_ceilings(*b.pool, isa ? *isa : CpuIsa::kPortable);
}

std::string ceilings_line(const Bench& b) {
  const probe::Ceilings& c = b.ceilings;
  const std::string compute = c.gflop_s > 0 ? fmt::format("{:.0f} GFLOP/s", c.gflop_s) : "no compute peak known";
  return fmt::format("{}, table {}; ceilings: cache {:.1f} GB/s, memory {:.1f} GB/s, {}, an empty call {:.2f} us",
                     b.machine, b.table, c.cache_gb_s, c.memory_gb_s, compute, c.dispatch_us);
}

std::string share(double value) {
  return value > 0 ? fmt::format("{:.0f}%", 100 * value) : "-";
}

void print_row(const probe::KernelResult& r) {
  fmt::print("{:13} {:44} {:5} {:10.2f} {:10.2f} {:8.1f} {:9.1f} {:>6} {:>6} {:9.1e}\n", r.model, r.name, r.rows,
             r.call.best_us, r.call.median_us, r.gb_s, r.gflop_s, share(r.bandwidth_share), share(r.compute_share),
             r.error);
  std::fflush(stdout);
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

std::string command_of(const BenchKernelOptions& o) {
  std::string line =
      fmt::format("strobe bench kernel --device {} --model {} --seconds {}", o.device, o.model, o.seconds);
  if (o.cpu_isa != "auto") line += " --cpu-isa " + o.cpu_isa;
  if (o.threads != 0) line += fmt::format(" --threads {}", o.threads);
  if (!o.filter.empty()) line += fmt::format(" --filter '{}'", o.filter);
  return line;
}

ordered_json to_json(const BenchKernelOptions& o, const Bench& b, const std::vector<probe::KernelResult>& results) {
  ordered_json cases = ordered_json::array();
  for (const probe::KernelResult& r : results) {
    cases.push_back({{"model", r.model},
                     {"name", r.name},
                     {"rows", r.rows},
                     {"best_us", r.call.best_us},
                     {"median_us", r.call.median_us},
                     {"gb_s", r.gb_s},
                     {"gflop_s", r.gflop_s},
                     {"bandwidth_share", r.bandwidth_share},
                     {"compute_share", r.compute_share},
                     {"error", r.error}});
  }
  return {{"date", today()},
          {"command", command_of(o)},
          {"machine", b.machine},
          {"table", b.table},
          {"ceilings",
           {{"cache_gb_s", b.ceilings.cache_gb_s},
            {"memory_gb_s", b.ceilings.memory_gb_s},
            {"gflop_s", b.ceilings.gflop_s},
            {"dispatch_us", b.ceilings.dispatch_us}}},
          {"cases", cases}};
}

std::string to_markdown(const BenchKernelOptions& o, const Bench& b, const std::vector<probe::KernelResult>& results) {
  std::string page = fmt::format(
      "# Kernels, {}\n\n{}.\n`{}`\n\nBytes: what a call must read and write at least; FLOPs: a multiply-add counts "
      "two; "
      "shares are of the best time. Weights of pocket-k2 and smollm2-135m are found in the outer cache (24 MiB taken "
      "in "
      "turn), those of kimi-k2 in memory (1 GiB). Error: 2-norm of the difference from the reference over the "
      "reference's.\n\n| model | kernel | rows | best us | median us | GB/s | GFLOP/s | of bandwidth | of peak | error "
      "|\n"
      "|---|---|---|---|---|---|---|---|---|---|\n",
      today(), ceilings_line(b), command_of(o));
  for (const probe::KernelResult& r : results) {
    page += fmt::format("| {} | {} | {} | {:.2f} | {:.2f} | {:.1f} | {:.1f} | {} | {} | {:.1e} |\n", r.model, r.name,
                        r.rows, r.call.best_us, r.call.median_us, r.gb_s, r.gflop_s, share(r.bandwidth_share),
                        share(r.compute_share), r.error);
  }
  return page;
}

int bench_kernel(const BenchKernelOptions& o) {
  if (const auto checked = check(o); !checked) return say_error(checked.error(), kUsageError);
  const auto cases = chosen_cases(o);
  if (!cases) return say_error(cases.error(), kUsageError);
  auto opened = open_bench(o);
  if (!opened) return say_error(opened.error(), o.device == "cuda" ? kNotMeasured : kUsageError);
  Bench& bench = *opened;
  bench.ceilings = measure_ceilings(o, bench);
  fmt::print("{}\n{:13} {:44} {:>5} {:>10} {:>10} {:>8} {:>9} {:>6} {:>6} {:>9}\n", ceilings_line(bench), "model",
             "kernel", "rows", "best us", "median us", "GB/s", "GFLOP/s", "of bw", "peak", "error");
  std::vector<probe::KernelResult> results;
  for (const probe::KernelCase& one : *cases) {
    results.push_back(probe::measure_case(one, *bench.kernels, *bench.reference, bench.ceilings, o.seconds));
    print_row(results.back());
  }
  if (!o.output.empty()) {
    measure::write_whole(o.output + ".json", to_json(o, bench, results).dump(1) + "\n");
    measure::write_whole(o.output + ".md", to_markdown(o, bench, results));
    fmt::print("results: {0}.json, {0}.md\n", o.output);
  }
  return kPassed;
}

}  // namespace

Subcommand bench_kernel_command() {
  return measuring_command<BenchKernelOptions>("bench kernel", "time every kernel beside the machine's ceilings",
                                               bench_kernel);
}

}  // namespace strobe::tool
