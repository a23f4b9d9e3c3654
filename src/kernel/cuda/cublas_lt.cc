#include "kernel/cuda/cublas_lt.h"

#include <dlfcn.h>

#include <array>
#include <map>

#include "base/failure.h"

namespace strobe::kernel::cuda {
namespace {

// As the library's documentation gives them, so that a build does not need its headers.
constexpr int kFloat32 = 0, kBfloat16 = 14;  // cudaDataType
constexpr int kCompute32 = 68;               // CUBLAS_COMPUTE_32F
constexpr int kTransposed = 1;               // CUBLAS_OP_T
constexpr int kTransposeA = 3;               // CUBLASLT_MATMUL_DESC_TRANSA
constexpr int kMaxWorkspace = 1;             // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
constexpr int kAlignments[] = {5, 6, 7, 8};  // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_[ABCD]_BYTES
constexpr uint32_t kAlignment = 16;

// cublasLtMatmulHeuristicResult_t, whose first part is the algorithm.
struct Heuristic {
  std::array<uint64_t, 8> algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

bool aligned(const Rows& rows) {
  return reinterpret_cast<uintptr_t>(rows.data) % kAlignment == 0 &&
         rows.stride * size_bytes(rows.dtype) % static_cast<int64_t>(kAlignment) == 0;
}

int type_of(DType dtype) {
  return dtype == DType::kBf16 ? kBfloat16 : kFloat32;
}

}  // namespace

// The functions that we call; all return a status, 0 is success.
struct CublasLt::Library {
  void* handle = nullptr;  // of dlopen
  void* lt = nullptr;
  int (*create)(void** lt) = nullptr;
  int (*destroy)(void* lt) = nullptr;
  int (*desc_create)(void** desc, int compute, int scale) = nullptr;
  int (*desc_set)(void* desc, int attribute, const void* value, size_t bytes) = nullptr;
  int (*desc_destroy)(void* desc) = nullptr;
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t stride) = nullptr;
  int (*layout_destroy)(void* layout) = nullptr;
  int (*preference_create)(void** preference) = nullptr;
  int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes) = nullptr;
  int (*preference_destroy)(void* preference) = nullptr;
  int (*heuristic)(void* lt, void* desc, void* a, void* b, void* c, void* d, void* preference, int asked,
                   Heuristic* found, int* count) = nullptr;
  int (*matmul)(void* lt, void* desc, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout,
                const void* beta, const void* c, void* c_layout, void* d, void* d_layout, const void* algorithm,
                void* workspace, size_t workspace_bytes, cudaStream_t stream) = nullptr;

  ~Library() {
    if (lt != nullptr) destroy(lt);
    if (handle != nullptr) dlclose(handle);
  }
  template <class Function>
  bool find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    return function != nullptr;
  }
  bool find_all() {
    return find("cublasLtCreate", create) && find("cublasLtDestroy", destroy) &&
           find("cublasLtMatmulDescCreate", desc_create) && find("cublasLtMatmulDescSetAttribute", desc_set) &&
           find("cublasLtMatmulDescDestroy", desc_destroy) && find("cublasLtMatrixLayoutCreate", layout_create) &&
           find("cublasLtMatrixLayoutDestroy", layout_destroy) &&
           find("cublasLtMatmulPreferenceCreate", preference_create) &&
           find("cublasLtMatmulPreferenceSetAttribute", preference_set) &&
           find("cublasLtMatmulPreferenceDestroy", preference_destroy) &&
           find("cublasLtMatmulAlgoGetHeuristic", heuristic) && find("cublasLtMatmul", matmul);
  }
};

namespace {

void check_lt(int status, const char* what) {
  if (status != 0) fail("cuBLASLt: {}: status {}", what, status);
}

}  // namespace

// What was settled for products of the same shape.
struct CublasLt::Plans {
  struct Plan {
    void* desc = nullptr;
    void* weight = nullptr;
    void* x = nullptr;
    void* y = nullptr;
    Heuristic best{};
  };
  using Key = std::array<int64_t, 6>;  // out, in, rows, strides of x and y, type of y

  explicit Plans(Library& of) : library(of) {}
  ~Plans() {
    for (auto& [key, plan] : known) {
      library.desc_destroy(plan.desc);
      for (void* layout : {plan.weight, plan.x, plan.y}) library.layout_destroy(layout);
    }
  }
  Plan make(const GemmProblem& problem);

  Library& library;
  std::map<Key, Plan> known;
};

// In the library's terms, by columns: y^T [out, rows] = W [out, in] x^T [in, rows], where a row-major W is a transposed
// matrix of columns.
CublasLt::Plans::Plan CublasLt::Plans::make(const GemmProblem& problem) {
  Plan plan;
  const auto out = static_cast<uint64_t>(problem.weight.out), in = static_cast<uint64_t>(problem.weight.in);
  const auto rows = static_cast<uint64_t>(problem.rows);
  check_lt(library.desc_create(&plan.desc, kCompute32, kFloat32), "MatmulDescCreate");
  check_lt(library.desc_set(plan.desc, kTransposeA, &kTransposed, sizeof kTransposed), "TRANSA");
  check_lt(library.layout_create(&plan.weight, kBfloat16, in, out, problem.weight.in), "MatrixLayoutCreate");
  check_lt(library.layout_create(&plan.x, kBfloat16, in, rows, problem.x.stride), "MatrixLayoutCreate");
  check_lt(library.layout_create(&plan.y, type_of(problem.y.dtype), out, rows, problem.y.stride), "MatrixLayoutCreate");
  void* preference = nullptr;
  check_lt(library.preference_create(&preference), "MatmulPreferenceCreate");
  const auto workspace = static_cast<uint64_t>(kWorkspaceBytes);
  check_lt(library.preference_set(preference, kMaxWorkspace, &workspace, sizeof workspace), "MAX_WORKSPACE_BYTES");
  for (const int attribute : kAlignments) {
    check_lt(library.preference_set(preference, attribute, &kAlignment, sizeof kAlignment), "MIN_ALIGNMENT");
  }
  int count = 0;
  const int status =
      library.heuristic(library.lt, plan.desc, plan.weight, plan.x, plan.y, plan.y, preference, 1, &plan.best, &count);
  library.preference_destroy(preference);
  if (status != 0 || count == 0) {
    fail("cuBLASLt has nothing for {} x {} and {} rows (status {})", problem.weight.out, problem.weight.in,
         problem.rows, status);
  }
  return plan;
}

CublasLt::CublasLt(std::unique_ptr<Library> library)
    : library_(std::move(library)), plans_(std::make_unique<Plans>(*library_)) {}

CublasLt::~CublasLt() = default;

Result<std::unique_ptr<CublasLt>> CublasLt::open() {
  constexpr const char* kName = "libcublasLt.so.13";
  auto library = std::make_unique<Library>();
  library->handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) return error("{}", dlerror());
  if (!library->find_all()) return error("{} lacks a function that Strobe calls", kName);
  if (const int status = library->create(&library->lt); status != 0) {
    library->lt = nullptr;
    return error("{} does not start: status {}", kName, status);
  }
  return std::unique_ptr<CublasLt>(new CublasLt(std::move(library)));
}

bool CublasLt::takes(const GemmProblem& problem) {
  const QuantTensor& weight = problem.weight;
  return weight.format == WeightFormat::kBf16 && problem.x.dtype == DType::kBf16 && problem.x_rows == nullptr &&
         problem.range == nullptr && problem.rows > 0 && weight.in % 8 == 0 &&
         reinterpret_cast<uintptr_t>(weight.data) % kAlignment == 0 && aligned(problem.x) && aligned(problem.y);
}

void CublasLt::gemm(const GemmProblem& problem, void* workspace, cudaStream_t stream) {
  const Plans::Key key{problem.weight.out, problem.weight.in, problem.rows,
                       problem.x.stride,   problem.y.stride,  static_cast<int64_t>(problem.y.dtype)};
  auto found = plans_->known.find(key);
  if (found == plans_->known.end()) found = plans_->known.emplace(key, plans_->make(problem)).first;
  const Plans::Plan& plan = found->second;
  const float one = 1, rest = problem.accumulate ? 1 : 0;
  check_lt(library_->matmul(library_->lt, plan.desc, &one, problem.weight.data, plan.weight, problem.x.data, plan.x,
                            &rest, problem.y.data, plan.y, problem.y.data, plan.y, &plan.best.algorithm, workspace,
                            static_cast<size_t>(kWorkspaceBytes), stream),
           "Matmul");
}

}  // namespace strobe::kernel::cuda
