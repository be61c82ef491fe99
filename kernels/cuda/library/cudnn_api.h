// Functions of cuDNN 9's backend API that attention calls, and the constants that they take. The
// declarations are our own: the build needs no cuDNN, and the library is loaded on demand. Names
// are those of the documentation, "cuDNN backend API", without prefixes. cudnn_graph.h uses them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// cudnnHandle_t and cudnnBackendDescriptor_t.
using CudnnHandle = void*;
using CudnnObject = void*;

// cudnnBackendDescriptorType_t
enum class CudnnType : int {
  kPointwise = 0,
  kEngineConfig = 3,
  kEngineHeuristics = 4,
  kExecutionPlan = 5,
  kPointwiseOp = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOp = 19,
  kReduction = 21,
  kReductionOp = 22,
  kReshapeOp = 31,
  kDeviceProperties = 38
};

// cudnnBackendAttributeName_t
enum class CudnnAttribute : int {
  kPointwiseMode = 0,
  kPointwisePrecision = 1,
  kPointwiseAxis = 9,
  kHeuristicsMode = 200,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kHeuristicsDevice = 204,
  kPlanEngineConfig = 401,
  kPlanWorkspaceSize = 402,
  kPlanDevice = 407,
  kPointwiseOpKind = 750,
  kPointwiseOpX = 751,
  kPointwiseOpB = 752,
  kPointwiseOpY = 753,
  kPointwiseOpT = 758,
  kGraphHandle = 800,
  kGraphOps = 801,
  kTensorAlignment = 900,
  kTensorDataType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kMatmulPrecision = 1500,
  kMatmulOpA = 1520,
  kMatmulOpB = 1521,
  kMatmulOpC = 1522,
  kMatmulOpKind = 1523,
  kReductionOperator = 1600,
  kReductionPrecision = 1601,
  kReductionOpX = 1610,
  kReductionOpY = 1611,
  kReductionOpKind = 1612,
  kReshapeOpX = 2200,
  kReshapeOpY = 2201,
  kDeviceJson = 2702
};

// cudnnBackendAttributeType_t: type of an attribute's elements.
enum class CudnnElement : int {
  kHandle = 0,
  kDataType = 1,
  kBoolean = 2,  // C++'s bool
  kInt64 = 3,
  kPointer = 6,
  kHeuristicsMode = 8,
  kPointwiseMode = 14,
  kObject = 15,
  kReductionOperator = 18,
  kChar = 24
};

// cudnnDataType_t
enum class CudnnData : int { kFloat = 0, kHalf = 2, kInt32 = 4, kBf16 = 9, kBoolean = 11 };

// cudnnPointwiseMode_t. kSelect: y = t ? x : b. kIndex: the index along an axis.
enum class CudnnPointwise : int {
  kAdd = 0,
  kMultiply = 1,
  kDivide = 6,
  kSubtract = 9,
  kExp = 13,
  kLog = 15,
  kIdentity = 21,
  kGreaterOrEqual = 303,
  kIndex = 501,
  kSelect = 601
};

enum class CudnnReduction : int { kAdd = 0, kMaximum = 3 };  // cudnnReduceTensorOp_t
enum class CudnnHeuristics : int { kFallback = 2, kA = 3 };  // cudnnBackendHeurMode_t

constexpr int kCudnnSuccess = 0;

// Versions are 10,000 * major + 100 * minor + patch. Everything here exists since 9.0, except
// properties of an absent device, since 9.8. This project's graphs were tested from kOldestCudnn
// on.
constexpr std::size_t kOldestCudnn = 91300;
constexpr std::size_t kNextCudnnMajor = 100000;
constexpr const char* kCudnnFile = "libcudnn.so.9";

// Status results are cudnnStatus_t. Functions are thread-safe; objects and handles may be used by
// one thread at a time.
struct CudnnApi {
  std::size_t (*cudnnGetVersion)() = nullptr;
  const char* (*cudnnGetErrorString)(int status) = nullptr;
  void (*cudnnGetLastErrorString)(char* text, std::size_t n) = nullptr;  // for this thread
  int (*cudnnCreate)(CudnnHandle*) = nullptr;
  int (*cudnnDestroy)(CudnnHandle) = nullptr;
  int (*cudnnSetStream)(CudnnHandle, void* stream) = nullptr;
  int (*cudnnBackendCreateDescriptor)(int type, CudnnObject*) = nullptr;
  int (*cudnnBackendDestroyDescriptor)(CudnnObject) = nullptr;
  int (*cudnnBackendSetAttribute)(CudnnObject, int name, int element, std::int64_t count,
                                  const void* elements) = nullptr;
  int (*cudnnBackendGetAttribute)(CudnnObject, int name, int element, std::int64_t capacity,
                                  std::int64_t* count, void* elements) = nullptr;
  int (*cudnnBackendFinalize)(CudnnObject) = nullptr;
  int (*cudnnBackendExecute)(CudnnHandle, CudnnObject plan, CudnnObject pack) = nullptr;
};

// Loads `file`, which stays loaded. If the loader does not find a name without folder, the packages
// of Python are searched: a virtual environment's, Conda's, the user's, the system's.
// FT_UNSUPPORTED with a sentence in `why` if it does not load, lacks a function, or has an
// unsupported version.
FtStatus LoadCudnn(const char* file, CudnnApi* out, char* why, std::size_t n);

}  // namespace foretrain
