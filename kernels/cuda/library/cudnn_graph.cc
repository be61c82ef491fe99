#include "kernels/cuda/library/cudnn_graph.h"

#include <algorithm>

namespace foretrain {
namespace {

constexpr std::int64_t kAlignment = 16;   // for tensors in memory
constexpr std::int64_t kNumberBytes = 4;  // for values passed by value
constexpr std::size_t kMaxConfigs = 8;    // tried per plan
constexpr std::size_t kMaxReason = 240;   // characters of the library's text that are kept

}  // namespace

// Strides of a dense tensor.
CudnnShape PackedShape(const std::array<std::int64_t, 4>& sizes) {
  return {sizes, {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}};
}

// One line for messages: version, action, status, and the library's own text, shortened.
std::string CudnnReason(const CudnnApi& api, int status, const char* what) {
  const std::size_t version = api.cudnnGetVersion();
  char text[1024] = "";
  api.cudnnGetLastErrorString(text, sizeof text);
  std::string said(text);
  std::replace(said.begin(), said.end(), '\n', ' ');
  said.resize(std::min(said.size(), kMaxReason));
  const char* const name = api.cudnnGetErrorString(status);
  return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
         "." + std::to_string(version % 100) + ": " + what + ": " +
         (name != nullptr ? name : std::to_string(status)) +
         (said.empty() ? "" : " (" + said + ")");
}

// Objects are destroyed in reverse order: later ones refer to earlier ones.
CudnnGraph::~CudnnGraph() {
  for (auto object = objects_.rbegin(); object != objects_.rend(); ++object) {
    static_cast<void>(api_.cudnnBackendDestroyDescriptor(*object));
  }
}

// Keeps the first failure and its reason. Later calls see ok() == false and do nothing.
bool CudnnGraph::Do(int status, const char* what) {
  if (ok() && status != kCudnnSuccess) {
    status_ = status;
    why_ = CudnnReason(api_, status, what);
  }
  return ok();
}

// Creates a descriptor that the graph owns. Null after a failure.
CudnnObject CudnnGraph::Make(CudnnType type) {
  CudnnObject object = nullptr;
  if (!ok()) return object;
  Do(api_.cudnnBackendCreateDescriptor(static_cast<int>(type), &object), "make a descriptor");
  if (object != nullptr) objects_.push_back(object);
  return object;
}

void CudnnGraph::SetMany(CudnnObject object, CudnnAttribute name, CudnnElement element,
                         std::size_t count, const void* values) {
  if (!ok()) return;
  Do(api_.cudnnBackendSetAttribute(object, static_cast<int>(name), static_cast<int>(element),
                                   static_cast<std::int64_t>(count), values),
     ("set attribute " + std::to_string(static_cast<int>(name))).c_str());
}

template <class Value>
void CudnnGraph::Set(CudnnObject object, CudnnAttribute name, CudnnElement element,
                     const Value& value) {
  SetMany(object, name, element, 1, &value);
}

void CudnnGraph::SetTensor(CudnnObject object, CudnnAttribute name, const CudnnTensor& tensor) {
  Set(object, name, CudnnElement::kObject, tensor.object);
}

void CudnnGraph::Finish(CudnnObject object, const char* what) {
  if (ok()) Do(api_.cudnnBackendFinalize(object), what);
}

// Operations are collected here; Plan hands them to the library as one graph.
void CudnnGraph::FinishOp(CudnnObject object, const char* what) {
  Finish(object, what);
  ops_.push_back(object);
}

// A virtual tensor is an intermediate result, which the library need not store. By-value tensors
// are numbers that it reads on the host during a call.
CudnnTensor CudnnGraph::MakeTensor(std::int64_t id, const CudnnShape& shape, CudnnData data,
                                   bool is_virtual, bool is_by_value) {
  const CudnnObject object = Make(CudnnType::kTensor);
  Set(object, CudnnAttribute::kTensorDataType, CudnnElement::kDataType, data);
  SetMany(object, CudnnAttribute::kTensorDimensions, CudnnElement::kInt64, shape.sizes.size(),
          shape.sizes.data());
  SetMany(object, CudnnAttribute::kTensorStrides, CudnnElement::kInt64, shape.strides.size(),
          shape.strides.data());
  Set(object, CudnnAttribute::kTensorId, CudnnElement::kInt64, id);
  Set(object, CudnnAttribute::kTensorAlignment, CudnnElement::kInt64,
      is_by_value ? kNumberBytes : kAlignment);
  Set(object, CudnnAttribute::kTensorIsVirtual, CudnnElement::kBoolean, is_virtual);
  Set(object, CudnnAttribute::kTensorIsByValue, CudnnElement::kBoolean, is_by_value);
  Finish(object, "describe a tensor");
  return {object, shape};
}

CudnnTensor CudnnGraph::Stored(std::int64_t id, const CudnnShape& shape, CudnnData data) {
  return MakeTensor(id, shape, data, false, false);
}
CudnnTensor CudnnGraph::Between(const CudnnShape& shape, CudnnData data) {
  return MakeTensor(next_id_++, shape, data, true, false);
}
CudnnTensor CudnnGraph::Between(const std::array<std::int64_t, 4>& sizes) {
  return Between(PackedShape(sizes), CudnnData::kFloat);
}
CudnnTensor CudnnGraph::Number(std::int64_t id) {
  return MakeTensor(id, PackedShape({1, 1, 1, 1}), CudnnData::kFloat, false, true);
}

// Comparisons compute booleans, everything else fp32.
void CudnnGraph::PointwiseOp(CudnnPointwise mode, std::optional<std::int64_t> axis,
                             const CudnnTensor& x, const CudnnTensor* b, const CudnnTensor* t,
                             const CudnnTensor& y) {
  const CudnnObject kind = Make(CudnnType::kPointwise);
  Set(kind, CudnnAttribute::kPointwiseMode, CudnnElement::kPointwiseMode, mode);
  Set(kind, CudnnAttribute::kPointwisePrecision, CudnnElement::kDataType,
      mode == CudnnPointwise::kGreaterOrEqual ? CudnnData::kBoolean : CudnnData::kFloat);
  if (axis) Set(kind, CudnnAttribute::kPointwiseAxis, CudnnElement::kInt64, *axis);
  Finish(kind, "describe a pointwise operation");
  const CudnnObject op = Make(CudnnType::kPointwiseOp);
  Set(op, CudnnAttribute::kPointwiseOpKind, CudnnElement::kObject, kind);
  SetTensor(op, CudnnAttribute::kPointwiseOpX, x);
  if (b != nullptr) SetTensor(op, CudnnAttribute::kPointwiseOpB, *b);
  if (t != nullptr) SetTensor(op, CudnnAttribute::kPointwiseOpT, *t);
  SetTensor(op, CudnnAttribute::kPointwiseOpY, y);
  FinishOp(op, "make a pointwise operation");
}

CudnnTensor CudnnGraph::Pointwise(CudnnPointwise mode, const CudnnTensor& x, const CudnnTensor& y) {
  PointwiseOp(mode, std::nullopt, x, nullptr, nullptr, y);
  return y;
}
CudnnTensor CudnnGraph::Pointwise(CudnnPointwise mode, const CudnnTensor& x, const CudnnTensor& b,
                                  const CudnnTensor& y) {
  PointwiseOp(mode, std::nullopt, x, &b, nullptr, y);
  return y;
}
CudnnTensor CudnnGraph::Select(const CudnnTensor& where, const CudnnTensor& x,
                               const CudnnTensor& otherwise, const CudnnTensor& y) {
  PointwiseOp(CudnnPointwise::kSelect, std::nullopt, x, &otherwise, &where, y);
  return y;
}
CudnnTensor CudnnGraph::Index(std::int64_t axis, const CudnnTensor& like, const CudnnTensor& y) {
  PointwiseOp(CudnnPointwise::kIndex, axis, like, nullptr, nullptr, y);
  return y;
}

CudnnTensor CudnnGraph::Product(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& c) {
  const CudnnObject kind = Make(CudnnType::kMatmul);
  Set(kind, CudnnAttribute::kMatmulPrecision, CudnnElement::kDataType, CudnnData::kFloat);
  Finish(kind, "describe a product");
  const CudnnObject op = Make(CudnnType::kMatmulOp);
  Set(op, CudnnAttribute::kMatmulOpKind, CudnnElement::kObject, kind);
  SetTensor(op, CudnnAttribute::kMatmulOpA, a);
  SetTensor(op, CudnnAttribute::kMatmulOpB, b);
  SetTensor(op, CudnnAttribute::kMatmulOpC, c);
  FinishOp(op, "make a product");
  return c;
}

// Reductions run along the axes in which y has size 1.
CudnnTensor CudnnGraph::Reduce(CudnnReduction how, const CudnnTensor& x, const CudnnTensor& y) {
  const CudnnObject kind = Make(CudnnType::kReduction);
  Set(kind, CudnnAttribute::kReductionOperator, CudnnElement::kReductionOperator, how);
  Set(kind, CudnnAttribute::kReductionPrecision, CudnnElement::kDataType, CudnnData::kFloat);
  Finish(kind, "describe a reduction");
  const CudnnObject op = Make(CudnnType::kReductionOp);
  Set(op, CudnnAttribute::kReductionOpKind, CudnnElement::kObject, kind);
  SetTensor(op, CudnnAttribute::kReductionOpX, x);
  SetTensor(op, CudnnAttribute::kReductionOpY, y);
  FinishOp(op, "make a reduction");
  return y;
}

CudnnTensor CudnnGraph::View(const CudnnTensor& x, const CudnnTensor& y) {
  const CudnnObject op = Make(CudnnType::kReshapeOp);
  SetTensor(op, CudnnAttribute::kReshapeOpX, x);
  SetTensor(op, CudnnAttribute::kReshapeOpY, y);
  FinishOp(op, "make a view");
  return y;
}

// Asks the library's heuristics for engines, best first.
std::vector<CudnnObject> CudnnGraph::EngineConfigs(const CudnnTarget& target, CudnnObject graph,
                                                   CudnnHeuristics mode) {
  const CudnnObject heuristics = Make(CudnnType::kEngineHeuristics);
  Set(heuristics, CudnnAttribute::kHeuristicsMode, CudnnElement::kHeuristicsMode, mode);
  Set(heuristics, CudnnAttribute::kHeuristicsGraph, CudnnElement::kObject, graph);
  if (target.handle == nullptr) {
    Set(heuristics, CudnnAttribute::kHeuristicsDevice, CudnnElement::kObject, target.properties);
  }
  if (!ok()) return {};
  // Not an error: another mode may have an engine for the graph.
  if (const int status = api_.cudnnBackendFinalize(heuristics); status != kCudnnSuccess) {
    why_ = CudnnReason(api_, status, "choose an engine for attention");
    return {};
  }
  const auto get = [&](std::int64_t capacity, std::int64_t* count, void* out) {
    Do(api_.cudnnBackendGetAttribute(heuristics,
                                     static_cast<int>(CudnnAttribute::kHeuristicsResults),
                                     static_cast<int>(CudnnElement::kObject), capacity, count, out),
       "ask for engines");
  };
  std::int64_t count = 0;
  get(0, &count, nullptr);
  std::vector<CudnnObject> configs(std::min(static_cast<std::size_t>(count), kMaxConfigs));
  for (CudnnObject& config : configs) config = Make(CudnnType::kEngineConfig);
  if (!ok() || configs.empty()) return {};
  get(static_cast<std::int64_t>(configs.size()), &count, configs.data());
  configs.resize(std::min(static_cast<std::size_t>(count), configs.size()));
  return configs;
}

// A config that cannot be compiled is skipped, so the failure is recorded only in why_.
bool CudnnGraph::PlanOf(const CudnnTarget& target, CudnnObject config) {
  const CudnnObject plan = Make(CudnnType::kExecutionPlan);
  if (target.handle == nullptr) {
    Set(plan, CudnnAttribute::kPlanDevice, CudnnElement::kObject, target.properties);
  }
  Set(plan, CudnnAttribute::kPlanEngineConfig, CudnnElement::kObject, config);
  if (!ok()) return false;
  if (const int status = api_.cudnnBackendFinalize(plan); status != kCudnnSuccess) {
    why_ = CudnnReason(api_, status, "make a plan of attention");
    return false;
  }
  std::int64_t count = 0;
  if (!Do(api_.cudnnBackendGetAttribute(plan, static_cast<int>(CudnnAttribute::kPlanWorkspaceSize),
                                        static_cast<int>(CudnnElement::kInt64), 1, &count,
                                        &workspace_bytes_),
          "ask for a plan's workspace")) {
    return false;
  }
  plan_ = plan;
  return true;
}

// Tries heuristic A first, then the fallback list; takes the first engine that compiles.
bool CudnnGraph::Plan(const CudnnTarget& target) {
  const CudnnObject graph = Make(CudnnType::kOperationGraph);
  SetMany(graph, CudnnAttribute::kGraphOps, CudnnElement::kObject, ops_.size(), ops_.data());
  if (target.handle != nullptr) {
    Set(graph, CudnnAttribute::kGraphHandle, CudnnElement::kHandle, target.handle);
  }
  Finish(graph, "put attention together");
  why_ = ok() ? "cuDNN has no engine for attention of these sizes" : why_;
  for (const CudnnHeuristics mode : {CudnnHeuristics::kA, CudnnHeuristics::kFallback}) {
    for (const CudnnObject config : EngineConfigs(target, graph, mode)) {
      if (PlanOf(target, config)) return true;
    }
  }
  return false;
}

// Binds addresses to tensor ids and runs the plan on the handle's stream. The pack is destroyed at
// once, because the library reads it during the call.
bool CudnnGraph::Run(CudnnHandle handle, std::span<const CudnnBinding> bindings, void* workspace) {
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  for (const CudnnBinding& binding : bindings) {
    ids.push_back(binding.id);
    pointers.push_back(binding.at);
  }
  const CudnnOwned pack(api_, CudnnType::kVariantPack);
  if (!Do(pack.status(), "make a descriptor")) return false;
  SetMany(pack.get(), CudnnAttribute::kPackPointers, CudnnElement::kPointer, pointers.size(),
          pointers.data());
  SetMany(pack.get(), CudnnAttribute::kPackIds, CudnnElement::kInt64, ids.size(), ids.data());
  Set(pack.get(), CudnnAttribute::kPackWorkspace, CudnnElement::kPointer, workspace);
  Finish(pack.get(), "bind attention's tensors");
  if (!ok()) return false;
  return Do(api_.cudnnBackendExecute(handle, plan_, pack.get()), "run attention");
}

}  // namespace foretrain
