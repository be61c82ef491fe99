// CUDA graphs of a queue's work, by stream capture. Capture is thread-local, so other threads may
// allocate and query events meanwhile.
#include "kernels/cuda/device/graph.h"

#include <cuda_runtime.h>

#include <cstdio>

#include "kernels/cuda/device/queue.h"

namespace foretrain {
namespace {

cudaStream_t Stream(FtQueue* queue) { return static_cast<cudaStream_t>(StreamOf(queue)); }
cudaGraphExec_t ExecOf(FtGraph* graph) { return reinterpret_cast<cudaGraphExec_t>(graph); }

FtStatus Told(FtQueue* queue, cudaError_t error, const char* what) {
  if (error == cudaSuccess) return FT_OK;
  static_cast<void>(cudaGetLastError());  // clears it, or the next launch would report it
  CudaQueue& q = QueueOf(queue);
  std::snprintf(q.error, sizeof q.error, "cuda device %d: %s: %s (%s)", q.device, what,
                cudaGetErrorString(error), cudaGetErrorName(error));
  return error == cudaErrorMemoryAllocation ? FT_OUT_OF_MEMORY : FT_FAILED;
}

FtStatus GraphBegin(FtQueue* queue) {
  if (const FtStatus status = UseDevice(queue); status != FT_OK) return status;
  return Told(queue, cudaStreamBeginCapture(Stream(queue), cudaStreamCaptureModeThreadLocal),
              "note a graph");
}

// Even if instantiation fails, capture has ended and the stream executes work again.
FtStatus GraphEnd(FtQueue* queue, FtGraph** out) {
  *out = nullptr;
  cudaGraph_t graph = nullptr;
  FtStatus status =
      Told(queue, cudaStreamEndCapture(Stream(queue), &graph), "end what was noted of a graph");
  if (status != FT_OK) return status;
  cudaGraphExec_t made = nullptr;
  status = Told(queue, cudaGraphInstantiate(&made, graph, 0), "make a graph");
  static_cast<void>(cudaGraphDestroy(graph));
  *out = reinterpret_cast<FtGraph*>(made);
  return status;
}

FtStatus GraphLaunch(FtQueue* queue, FtGraph* graph) {
  if (const FtStatus status = UseDevice(queue); status != FT_OK) return status;
  return Told(queue, cudaGraphLaunch(ExecOf(graph), Stream(queue)), "launch a graph");
}

// CUDA frees a graph that is still running when it ends.
void GraphDestroy(FtGraph* graph) { static_cast<void>(cudaGraphExecDestroy(ExecOf(graph))); }

}  // namespace

void SetCudaGraphs(FtDeviceApi& api) {
  api.graph_begin = &GraphBegin;
  api.graph_end = &GraphEnd;
  api.graph_launch = &GraphLaunch;
  api.graph_destroy = &GraphDestroy;
}

}  // namespace foretrain
