// One graph of cuDNN operations over tensors of four dimensions, and the plan that it becomes.
// Leaves out which operations attention is (cudnn_attention.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/cudnn_api.h"

namespace foretrain {

// Elements along each dimension, and from one to the next.
struct CudnnShape {
  std::array<std::int64_t, 4> sizes, strides;
};
CudnnShape PackedShape(const std::array<std::int64_t, 4>& sizes);

// For which device a plan is made: that of a handle, or, where there is no handle, one that need
// not be there, by its properties. A plan of the latter can be made and not run.
struct CudnnTarget {
  CudnnHandle handle = nullptr;
  CudnnObject properties = nullptr;
};

// A tensor of the graph, which owns it.
struct CudnnTensor {
  CudnnObject object = nullptr;
  CudnnShape shape{};
};

// What a run reads and writes: a tensor's number and its memory, which is the host's for numbers by
// value.
struct CudnnBinding {
  std::int64_t id;
  void* at;
};

// Operations are added in the order of what flows. The first call that fails is kept with its
// reason, and those after it do nothing.
class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnApi& api) : api_(api) {}
  CudnnGraph(const CudnnGraph&) = delete;
  CudnnGraph& operator=(const CudnnGraph&) = delete;
  ~CudnnGraph();

  // In memory, of the number `id` >= 1, from a multiple of 16 bytes on.
  CudnnTensor Stored(std::int64_t id, const CudnnShape& shape, CudnnData data);
  // Of one operation for the next.
  CudnnTensor Between(const CudnnShape& shape, CudnnData data);
  CudnnTensor Between(const std::array<std::int64_t, 4>& sizes);  // packed, fp32
  // One fp32 number on the host.
  CudnnTensor Number(std::int64_t id);

  // Each gives back `y` or `c`, its result. Computed in fp32, comparisons as booleans.
  CudnnTensor Pointwise(CudnnPointwise mode, const CudnnTensor& x, const CudnnTensor& y);
  CudnnTensor Pointwise(CudnnPointwise mode, const CudnnTensor& x, const CudnnTensor& b,
                        const CudnnTensor& y);
  CudnnTensor Select(const CudnnTensor& where, const CudnnTensor& x, const CudnnTensor& otherwise,
                     const CudnnTensor& y);
  CudnnTensor Index(std::int64_t axis, const CudnnTensor& like, const CudnnTensor& y);
  // Of the last two dimensions; a second one of fewer heads is each of a group's.
  CudnnTensor Product(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& c);
  // Over the dimensions of which y has fewer.
  CudnnTensor Reduce(CudnnReduction how, const CudnnTensor& x, const CudnnTensor& y);
  // The same elements with the strides of y.
  CudnnTensor View(const CudnnTensor& x, const CudnnTensor& y);

  // The library's first choice that it can make a plan of; seconds, where it compiles.
  // False with why(): there is none.
  bool Plan(const CudnnTarget& target);
  // Memory of the device that a run needs; of a graph with a plan.
  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  // Enqueues a run on the handle's stream. False with why().
  bool Run(CudnnHandle handle, std::span<const CudnnBinding> bindings, void* workspace);

  bool ok() const { return status_ == kCudnnSuccess; }
  const std::string& why() const { return why_; }

 private:
  CudnnObject Make(CudnnType type);
  CudnnTensor MakeTensor(std::int64_t id, const CudnnShape& shape, CudnnData data, bool is_virtual,
                         bool is_by_value);
  void PointwiseOp(CudnnPointwise mode, std::optional<std::int64_t> axis, const CudnnTensor& x,
                   const CudnnTensor* b, const CudnnTensor* t, const CudnnTensor& y);
  template <class Value>
  void Set(CudnnObject object, CudnnAttribute name, CudnnElement element, const Value& value);
  void SetMany(CudnnObject object, CudnnAttribute name, CudnnElement element, std::size_t count,
               const void* values);
  void SetTensor(CudnnObject object, CudnnAttribute name, const CudnnTensor& tensor);
  void Finish(CudnnObject object, const char* what);
  void FinishOp(CudnnObject object, const char* what);
  std::vector<CudnnObject> EngineConfigs(const CudnnTarget& target, CudnnObject graph,
                                         CudnnHeuristics mode);
  bool PlanOf(const CudnnTarget& target, CudnnObject config);
  bool Do(int status, const char* what);

  const CudnnApi& api_;
  int status_ = kCudnnSuccess;
  std::string why_;
  std::int64_t next_id_ = 1000;       // of what lies between operations
  std::vector<CudnnObject> objects_;  // all that was made
  std::vector<CudnnObject> ops_;
  CudnnObject plan_ = nullptr;
  std::int64_t workspace_bytes_ = 0;
};

// A CUDNN object that lives as long as this.
class CudnnOwned {
 public:
  CudnnOwned(const CudnnApi& api, CudnnType type) : api_(api) {
    status_ = api.cudnnBackendCreateDescriptor(static_cast<int>(type), &object_);
  }
  CudnnOwned(const CudnnOwned&) = delete;
  CudnnOwned& operator=(const CudnnOwned&) = delete;
  ~CudnnOwned() {
    if (object_ != nullptr) static_cast<void>(api_.cudnnBackendDestroyDescriptor(object_));
  }
  int status() const { return status_; }
  CudnnObject get() const { return object_; }

 private:
  const CudnnApi& api_;
  CudnnObject object_ = nullptr;
  int status_ = kCudnnSuccess;
};

// What the library says of a status, in one line.
std::string CudnnReason(const CudnnApi& api, int status, const char* what);

}  // namespace foretrain
