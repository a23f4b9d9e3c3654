#include "kernel/cuda/marks.h"

#include "kernel/cuda/launch.h"

namespace strobe::kernel::cuda {

Marks::Marks(cudaStream_t stream) : stream_(stream) {
  for (cudaEvent_t& event : events_) check(cudaEventCreate(&event), "cudaEventCreate");
}

Marks::~Marks() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
}

void Marks::note(int index) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_, &capture), "cudaStreamIsCapturing");
  // In a graph the event must become a node of it; outside of one that flag is an error.
  const unsigned flags = capture == cudaStreamCaptureStatusNone ? cudaEventRecordDefault : cudaEventRecordExternal;
  check(cudaEventRecordWithFlags(events_.at(static_cast<size_t>(index)), stream_, flags), "cudaEventRecord");
}

double Marks::ms_between(int first, int second) const {
  const cudaEvent_t end = events_.at(static_cast<size_t>(second));
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, events_.at(static_cast<size_t>(first)), end), "cudaEventElapsedTime");
  return ms;
}

}  // namespace strobe::kernel::cuda
