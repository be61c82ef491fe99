// A graph of cuDNN operations on four-dimensional tensors, and its execution plan.
// cudnn_attention.h defines the operations of attention.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/library/cudnn_api.h"

namespace foretrain {

// Elements along each dimension, and the distance between neighbours.
struct CudnnShape {
  std::array<std::int64_t, 4> sizes, strides;
};
CudnnShape PackedShape(const std::array<std::int64_t, 4>& sizes);

// Device of a plan: the handle's, or if there is no handle a device described by its properties,
// which need not be present. A plan without a handle can be made but not run.
struct CudnnTarget {
  CudnnHandle handle = nullptr;
  CudnnObject properties = nullptr;
};

// A tensor, owned by its graph.
struct CudnnTensor {
  CudnnObject object = nullptr;
  CudnnShape shape{};
};

// Binds a tensor id to memory for a run. Values passed by value lie in host memory.
struct CudnnBinding {
  std::int64_t id;
  void* at;
};

// Operations are added in the order of the data flow. The first failing call is kept with its
// reason; later calls do nothing.
class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnApi& api) : api_(api) {}
  CudnnGraph(const CudnnGraph&) = delete;
  CudnnGraph& operator=(const CudnnGraph&) = delete;
  ~CudnnGraph();

  // A tensor in memory with `id` >= 1, 16-byte aligned.
  CudnnTensor Stored(std::int64_t id, const CudnnShape& shape, CudnnData data);
  // A tensor between two operations, without memory of its own.
  CudnnTensor Between(const CudnnShape& shape, CudnnData data);
  CudnnTensor Between(const std::array<std::int64_t, 4>& sizes);  // packed, fp32
  // One fp32 value in host memory.
  CudnnTensor Number(std::int64_t id);

  // Each returns its result, `y` or `c`. Computes in fp32, comparisons as booleans.
  CudnnTensor Pointwise(CudnnPointwise mode, const CudnnTensor& x, const CudnnTensor& y);
  CudnnTensor Pointwise(CudnnPointwise mode, const CudnnTensor& x, const CudnnTensor& b,
                        const CudnnTensor& y);
  CudnnTensor Select(const CudnnTensor& where, const CudnnTensor& x, const CudnnTensor& otherwise,
                     const CudnnTensor& y);
  CudnnTensor Index(std::int64_t axis, const CudnnTensor& like, const CudnnTensor& y);
  // Product over the last two dimensions. If b has fewer heads, each serves a group of a's.
  CudnnTensor Product(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& c);
  // Reduction over the dimensions in which y is smaller.
  CudnnTensor Reduce(CudnnReduction how, const CudnnTensor& x, const CudnnTensor& y);
  // The same elements with y's strides.
  CudnnTensor View(const CudnnTensor& x, const CudnnTensor& y);

  // Takes the library's first choice that it can compile; this may take seconds. False, with why(),
  // if there is none.
  bool Plan(const CudnnTarget& target);
  // Device memory that a run needs; valid after Plan.
  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  // Enqueues a run on the handle's stream. False, with why(), on failure.
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
  std::int64_t next_id_ = 1000;       // ids of tensors between operations
  std::vector<CudnnObject> objects_;  // every object, in order of creation
  std::vector<CudnnObject> ops_;
  CudnnObject plan_ = nullptr;
  std::int64_t workspace_bytes_ = 0;
};

// Owns a cuDNN object.
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

// The library's text for a status, in one line.
std::string CudnnReason(const CudnnApi& api, int status, const char* what);

}  // namespace foretrain
