// A libcudnn.so.9 for tests, on host memory. It checks descriptors as the documentation of the
// backend API describes them. A run computes its graph operation by operation in fp64, each result
// rounded to its tensor's type. Only the operations of attention exist. Workspaces have the sizes
// that cuDNN 9.13 to 9.28 requested on compute capability 9.0.
#include "tests/plugins/fake_cudnn.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "tests/plugins/fake_cudnn_run.h"
#include "tests/plugins/give_to_stream.h"

namespace {

using foretrain::FakeCudnn;
using namespace foretrain::fake_cudnn;

constexpr int kSuccess = 0, kNotInitialized = 1001, kBadParam = 2000, kNotSupported = 3000,
              kExecutionFailed = 5000;
FakeCudnn control;

bool Fails() { return control.calls++ == control.fail_at; }

}  // namespace

int foretrain::fake_cudnn::Wrong(const std::string& what) {
  if (control.wrong.empty()) control.wrong = what;
  return kBadParam;
}

namespace {

// Bytes of one element of an attribute; 0 for an unknown type.
std::size_t BytesOf(int element) {
  switch (element) {
    case 0:  // a handle
    case 6:
    case 15:
    case 3:
      return 8;
    case 2:
    case 24:
      return 1;
    case 1:
    case 8:
    case 14:
    case 18:
      return 4;
    default:
      return 0;
  }
}

// The type that an attribute's elements must have; -1 for an unknown attribute.
int ElementOf(int name) {
  static const std::map<int, std::set<int>> kNames = {
      {14, {0}},
      {1, {1, 901, 1500, 1601}},
      {3, {9, 402, 900, 902, 903, 906, 1000}},
      {8, {200}},
      {15,
       {201, 202, 401, 750, 751, 752, 753, 758, 801, 1520, 1521, 1522, 1523, 1610, 1611, 1612, 2200,
        2201}},
      {0, {800}},
      {2, {907, 908}},
      {6, {1001, 1003}},
      {18, {1600}}};
  for (const auto& [element, names] : kNames) {
    if (names.count(name) > 0) return element;
  }
  return -1;
}

// ---- graphs

std::vector<const Object*> TensorsOf(const Object& op) {
  std::vector<const Object*> tensors;
  for (const int name : {751, 752, 753, 758, 1520, 1521, 1522, 1610, 1611, 2200, 2201}) {
    if (op.Of(name) != nullptr) tensors.push_back(op.Of(name));
  }
  return tensors;
}

// Tensors in memory and numbers passed by value, by their ids.
std::map<std::int64_t, const Object*> StoredIn(const Object& graph) {
  std::map<std::int64_t, const Object*> stored;
  for (const Object* const op : graph.All<const Object*>(801)) {
    for (const Object* const tensor : TensorsOf(*op)) {
      if (!tensor->One<bool>(907)) stored[tensor->One<std::int64_t>(906)] = tensor;
    }
  }
  return stored;
}

// 16 bits per gradient of a score if the last operation is a product, and whole heads of key
// gradients if query heads share them.
std::int64_t WorkspaceOf(const Object& graph) {
  const auto ops = graph.All<const Object*>(801);
  const auto round = [](std::int64_t rows) { return (rows + 63) / 64 * 64; };
  std::int64_t bytes = 256;
  const bool is_backward = StoredIn(graph).count(7) > 0;
  if (!is_backward) return bytes;
  if (ops.back()->type == kMatmulOp) {
    const Sizes scores = ShapeOf(*ops.back()->Of(1520)).sizes;
    bytes += 2 * scores[0] * scores[1] * round(scores[2]) * round(scores[3]);
  }
  for (const Object* const op : ops) {
    if (op->type == kReductionOp && op->Of(1610)->One<int>(901) != kFloat) {
      bytes += 2 * Count(ShapeOf(*op->Of(1610)).sizes);
    }
  }
  return bytes;
}

int CheckFinalized(const Object& object) {
  for (const auto& [name, element] : object.elements) {
    if (element != 15) continue;
    for (const Object* const part : object.All<const Object*>(name)) {
      if (part == nullptr || !part->finalized) return Wrong("a part that is not finalized");
    }
  }
  return kSuccess;
}

int Finish(Object& object) {
  if (CheckFinalized(object) != kSuccess) return kBadParam;
  const auto needs = [&](std::initializer_list<int> names) {
    for (const int name : names) {
      if (object.attributes.count(name) == 0) {
        return Wrong("type " + std::to_string(object.type) + " without " + std::to_string(name));
      }
    }
    return kSuccess;
  };
  switch (object.type) {
    case kTensor:
      return needs({900, 901, 902, 903, 906});
    case kPointwise:
      return needs({0, 1});
    case kPointwiseOp:
      return needs({750, 751, 753});
    case kMatmulOp:
      return needs({1520, 1521, 1522, 1523});
    case kReductionOp:
      return needs({1610, 1611, 1612});
    case kReshapeOp:
      return needs({2200, 2201});
    case kGraph:
      return needs({800, 801});
    case kHeuristics:
      return needs({200, 201}) != kSuccess ? kBadParam
             : control.has_engine          ? kSuccess
                                           : kNotSupported;
    case kPack:
      return needs({1000, 1001});
    default:
      return kSuccess;
  }
}

int FinishPlan(Object& plan) {
  const Object* const config = plan.Of(401);
  if (config == nullptr) return Wrong("a plan without an engine");
  if (config->One<int>(1) < control.refused_configs) return kNotSupported;
  const std::int64_t bytes = WorkspaceOf(*config->Of(201));
  if (bytes > control.max_bytes) return kNotSupported;
  auto& held = plan.attributes[402];
  held.resize(sizeof bytes);
  std::memcpy(held.data(), &bytes, sizeof bytes);
  control.plans += 1;
  return kSuccess;
}

void Set(Object& object, int name, const void* value, std::size_t bytes) {
  const auto* const from = static_cast<const std::uint8_t*>(value);
  object.attributes[name].assign(from, from + bytes);
}

struct Handle {
  void* stream = nullptr;
};

int Execute(const Handle& handle, const Object& plan, const Object& pack) {
  const Object& graph = *plan.Of(401)->Of(201);
  const auto ids = pack.All<std::int64_t>(1000);
  const auto pointers = pack.All<void*>(1001);
  const auto stored = StoredIn(graph);
  std::map<std::int64_t, void*> bound;
  for (std::size_t i = 0; i < ids.size(); ++i) bound[ids[i]] = pointers.at(i);
  if (bound.size() != stored.size()) return Wrong("other tensors bound than the graph has");
  for (const auto& [id, tensor] : stored) {
    const auto at = reinterpret_cast<std::uintptr_t>(bound[id]);
    if (at == 0 || at % static_cast<std::uintptr_t>(tensor->One<std::int64_t>(900)) != 0) {
      return Wrong("tensor " + std::to_string(id) + " is not bound, or not aligned");
    }
  }
  const auto workspace = static_cast<std::size_t>(plan.One<std::int64_t>(402));
  if (pack.One<void*>(1003) == nullptr) return Wrong("a run without a workspace");
  void* const scratch = pack.One<void*>(1003);
  control.runs += 1;
  control.ran.push_back(stored.at(1)->All<std::int64_t>(902));
  // Numbers are read now, tensors when the stream comes to the run. The graph outlives the run,
  // because its plan does.
  std::map<std::int64_t, std::uint32_t> numbers;
  for (const auto& [id, tensor] : stored) {
    if (tensor->One<bool>(908)) std::memcpy(&numbers[id], bound[id], sizeof numbers[id]);
  }
  const bool given =
      foretrain::GiveToStream(handle.stream, "fake_cudnn_graph", [=, &graph]() mutable {
        std::memset(scratch, 0xee, workspace);  // a run may write all of it
        for (auto& [id, number] : numbers) bound[id] = &number;
        Run run(bound);
        for (const Object* const op : graph.All<const Object*>(801)) {
          if (!run.Do(*op)) Wrong("an operation that this library does not compute");
        }
      });
  return given && control.wrong.empty() ? kSuccess : kExecutionFailed;
}

}  // namespace

extern "C" {

FakeCudnn* fake_cudnn() { return &control; }

std::size_t cudnnGetVersion() { return control.version; }
const char* cudnnGetErrorString(int status) {
  return status == kNotSupported ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_OF_THE_TESTS";
}
void cudnnGetLastErrorString(char* text, std::size_t n) {
  if (n > 0) std::strncpy(text, "the test\nsays so", n - 1);
}
int cudnnCreate(void** handle) {
  if (Fails()) return kNotInitialized;
  control.live += 1;
  *handle = new Handle;
  return kSuccess;
}
int cudnnDestroy(void* handle) {
  control.live -= 1;
  delete static_cast<Handle*>(handle);
  return kSuccess;
}
int cudnnSetStream(void* handle, void* stream) {
  if (Fails()) return kBadParam;
  static_cast<Handle*>(handle)->stream = stream;
  return kSuccess;
}
int cudnnBackendCreateDescriptor(int type, void** out) {
  if (Fails()) return kBadParam;
  control.live += 1;
  *out = new Object{type, false, {}, {}};
  return kSuccess;
}
int cudnnBackendDestroyDescriptor(void* object) {
  control.live -= 1;
  delete static_cast<Object*>(object);
  return kSuccess;
}
int cudnnBackendSetAttribute(void* at, int name, int element, std::int64_t count,
                             const void* values) {
  if (Fails()) return kBadParam;
  auto& object = *static_cast<Object*>(at);
  if (object.finalized) return Wrong("an attribute set behind finalize");
  if (ElementOf(name) != element || count < 1) {
    return Wrong("attribute " + std::to_string(name) + " of type " + std::to_string(element));
  }
  Set(object, name, values, static_cast<std::size_t>(count) * BytesOf(element));
  object.elements[name] = element;
  return kSuccess;
}
int cudnnBackendGetAttribute(void* at, int name, int element, std::int64_t capacity,
                             std::int64_t* count, void* values) {
  if (Fails()) return kBadParam;
  auto& object = *static_cast<Object*>(at);
  if (!object.finalized || ElementOf(name) != element) return Wrong("asked too early");
  if (name == 402) {
    *count = 1;
    std::memcpy(values, object.attributes[402].data(), sizeof(std::int64_t));
    return kSuccess;
  }
  *count = 2;  // engines
  for (std::int64_t i = 0; i < std::min<std::int64_t>(capacity, 2); ++i) {
    Object& config = *static_cast<Object**>(values)[i];
    if (config.type != kEngineConfig) return Wrong("no descriptor for an engine");
    const Object* const graph = object.Of(201);
    const auto number = static_cast<int>(i);
    Set(config, 201, &graph, sizeof graph);
    Set(config, 1, &number, sizeof number);
    config.finalized = true;
  }
  return kSuccess;
}
int cudnnBackendFinalize(void* at) {
  if (Fails()) return kBadParam;
  auto& object = *static_cast<Object*>(at);
  int status = Finish(object);
  if (status == kSuccess && object.type == kPlan) status = FinishPlan(object);
  object.finalized = status == kSuccess;
  return status;
}
int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  if (Fails()) return kExecutionFailed;
  return Execute(*static_cast<Handle*>(handle), *static_cast<Object*>(plan),
                 *static_cast<Object*>(pack));
}

}  // extern "C"
