// A main() for the fuzz entries of this folder, so that they run under any compiler and sanitizer.
//
//   <entry> [--runs N] [--seed S] [--only I] [--max-bytes B] [--seconds-per-run T] seed-file-or-folder...
//
// First every seed file is fed as it is (and the empty input), then N mutated ones. Input I depends on the seed files,
// S and I alone, so `--only I` repeats one of them. When an input kills the program its number is printed and its bytes
// are written to crash-<entry>-<I>.bin in the working directory. A run that lasts longer than T seconds counts as a
// hang.
//
// With clang, -DSTROBE_SANITIZE=fuzzer-no-link,address builds the same entries with libFuzzer's own main instead.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// Present when a sanitizer is linked in: it ends the program without a signal of its own.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

using Bytes = std::vector<uint8_t>;

struct Options {
  int64_t runs = 1000;
  uint64_t seed = 1;
  int64_t only = -1;
  int64_t max_bytes = 1 << 16;
  int64_t seconds_per_run = 60;
  std::vector<std::filesystem::path> seeds;
};

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers from every standard library.
class Random {
 public:
  explicit Random(uint64_t state) : state_(state) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  size_t below(size_t bound) { return bound == 0 ? 0 : static_cast<size_t>(next() % bound); }

 private:
  uint64_t state_;
};

// What the death handlers report. Plain globals: a signal handler can reach nothing else.
int64_t current_run = 0;
const Bytes* current_input = nullptr;
std::array<char, 256> crash_path{};

void report_death() {
  std::fprintf(stderr, "fuzz: died in run %lld, %zu bytes, input kept in %s\n", static_cast<long long>(current_run),
               current_input == nullptr ? 0 : current_input->size(), crash_path.data());
  const int file = open(crash_path.data(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || current_input == nullptr) return;
  for (size_t done = 0; done < current_input->size();) {
    const ssize_t wrote = write(file, current_input->data() + done, current_input->size() - done);
    if (wrote <= 0) break;
    done += static_cast<size_t>(wrote);
  }
  close(file);
}

void on_signal(int signal) {
  std::fprintf(stderr, "fuzz: %s\n", signal == SIGALRM ? "hang" : "fatal signal");
  report_death();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run_one(int64_t run, const Bytes& input, const Options& options, const std::string& entry) {
  current_run = run;
  current_input = &input;
  std::snprintf(crash_path.data(), crash_path.size(), "crash-%s-%lld.bin", entry.c_str(), static_cast<long long>(run));
  alarm(static_cast<unsigned>(options.seconds_per_run));
  LLVMFuzzerTestOneInput(input.data(), input.size());
  alarm(0);
}

uint8_t interesting_byte(Random& random) {
  static constexpr std::array<uint8_t, 16> kBytes = {0x00, 0x01, 0x09, 0x0a, 0x20, '"',  '0',  '9',
                                                     '{',  '}',  0x7f, 0x80, 0xc0, 0xe4, 0xf0, 0xff};
  return kBytes[random.below(kBytes.size())];
}

void mutate_once(Bytes& input, const std::vector<Bytes>& corpus, Random& random) {
  const size_t at = random.below(input.size());
  const size_t length = std::min(input.size() - at, 1 + random.below(random.below(8) == 0 ? 4096 : 16));
  const auto begin = input.begin() + static_cast<ptrdiff_t>(at);
  const auto end = begin + static_cast<ptrdiff_t>(length);
  switch (random.below(input.empty() ? 2 : 10)) {
    case 0: {  // splice a piece of some seed in
      const Bytes& other = corpus[random.below(corpus.size())];
      const size_t from = random.below(other.size());
      const size_t count = std::min(other.size() - from, 1 + random.below(512));
      input.insert(begin, other.begin() + static_cast<ptrdiff_t>(from),
                   other.begin() + static_cast<ptrdiff_t>(from + count));
      break;
    }
    case 1:
      input.insert(begin, interesting_byte(random));
      break;
    case 2:
      *begin = static_cast<uint8_t>(*begin ^ (1U << random.below(8)));
      break;
    case 3:
      *begin = static_cast<uint8_t>(random.next());
      break;
    case 4:
      *begin = interesting_byte(random);
      break;
    case 5:
      input.erase(begin, end);
      break;
    case 6: {  // repeat a piece, sometimes many times
      const Bytes piece(begin, end);
      const size_t times = random.below(16) == 0 ? 256 : 1;
      for (size_t i = 0; i < times; ++i) {
        input.insert(input.begin() + static_cast<ptrdiff_t>(at), piece.begin(), piece.end());
      }
      break;
    }
    case 7:
      input.resize(at);
      break;
    case 8: {  // a little-endian number near an edge: lengths and offsets live in such places
      const uint64_t value = (uint64_t{1} << random.below(64)) - random.below(3);
      const size_t count = std::min<size_t>(input.size() - at, size_t{1} << random.below(4));
      std::memcpy(&*begin, &value, count);
      break;
    }
    default: {  // decimal digits: numbers in text formats
      const auto digit = std::find_if(begin, input.end(), [](uint8_t c) { return c >= '0' && c <= '9'; });
      if (digit == input.end()) break;
      *digit = static_cast<uint8_t>('0' + random.below(10));
      if (random.below(4) == 0) input.insert(digit, random.below(20), static_cast<uint8_t>('9'));
      break;
    }
  }
}

Bytes mutated_input(int64_t run, const std::vector<Bytes>& corpus, const Options& options) {
  Random random(options.seed * 0x100000001b3ULL + static_cast<uint64_t>(run));
  Bytes input = corpus[random.below(corpus.size())];
  for (size_t left = 1 + random.below(8); left > 0; --left) mutate_once(input, corpus, random);
  if (input.size() > static_cast<size_t>(options.max_bytes)) input.resize(static_cast<size_t>(options.max_bytes));
  input.shrink_to_fit();  // so that reading past the end is seen by AddressSanitizer
  return input;
}

[[noreturn]] void usage(const std::string& complaint) {
  std::fprintf(stderr, "fuzz: %s\n", complaint.c_str());
  std::exit(2);
}

int64_t parse_number(std::string_view flag, const char* text) {
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  if (const auto [stop, code] = std::from_chars(text, end, value); code != std::errc() || stop != end || value < 0) {
    usage(std::string(flag) + " takes a whole number from 0, not '" + text + "'");
  }
  return value;
}

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (!flag.starts_with("--")) {
      options.seeds.emplace_back(flag);
      continue;
    }
    if (i + 1 == argc) usage(std::string(flag) + " needs a value");
    const int64_t value = parse_number(flag, argv[++i]);
    if (flag == "--runs") {
      options.runs = value;
    } else if (flag == "--seed") {
      options.seed = static_cast<uint64_t>(value);
    } else if (flag == "--only") {
      options.only = value;
    } else if (flag == "--max-bytes") {
      options.max_bytes = value;
    } else if (flag == "--seconds-per-run") {
      options.seconds_per_run = value;
    } else {
      usage("unknown flag " + std::string(flag));
    }
  }
  return options;
}

std::vector<Bytes> read_seeds(const Options& options) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : options.seeds) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& item : std::filesystem::directory_iterator(path)) {
      if (item.is_regular_file()) files.push_back(item.path());
    }
  }
  std::sort(files.begin(), files.end());  // a folder is listed in no fixed order
  std::vector<Bytes> corpus;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    if (!file) usage("cannot read " + path.string());
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  corpus.emplace_back();  // the empty input
  return corpus;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  const std::string entry = std::filesystem::path(argv[0]).filename().string();
  const std::vector<Bytes> corpus = read_seeds(options);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(report_death);
  for (const int signal : {SIGABRT, SIGFPE, SIGILL, SIGALRM}) std::signal(signal, on_signal);
  if (__sanitizer_set_death_callback == nullptr) {
    for (const int signal : {SIGSEGV, SIGBUS}) std::signal(signal, on_signal);
  }

  const auto seeds = static_cast<int64_t>(corpus.size());
  for (int64_t run = 0; run < seeds + options.runs; ++run) {
    if (options.only >= 0 && run != options.only) continue;
    const Bytes input = run < seeds ? corpus[static_cast<size_t>(run)] : mutated_input(run, corpus, options);
    run_one(run, input, options, entry);
  }
  std::printf("%s: %lld seed inputs and %lld mutated ones, no crash\n", entry.c_str(), static_cast<long long>(seeds),
              static_cast<long long>(options.runs));
  return 0;
}
