// Bytes of TensorBoard's event files: TFRecords of protobuf messages, written by hand. Leaves out
// the file itself: app/training/outputs/step_files.h.
//
//   record   length u64 | masked CRC-32C of length | data | masked CRC-32C of data, little-endian
//            (tensorflow/core/lib/io/record_writer.h)
//   data     an Event (tensorflow/core/util/event.proto)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace foretrain {

// One number of a step. TensorBoard groups scalars by the tag's part before the first slash.
struct TensorBoardScalar {
  std::string_view tag;
  float value = 0;
};

// `data` as a TFRecord.
std::string TfRecord(std::string_view data);

// The first record of an event file. `time_s`: seconds since 1970.
std::string TensorBoardHeader(double time_s);

// A record with the scalars of one step.
std::string TensorBoardStep(double time_s, std::int64_t step,
                            std::span<const TensorBoardScalar> scalars);

}  // namespace foretrain
