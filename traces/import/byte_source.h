// Reads the bytes of a trace file in order and unpacks gzip. Parsing is in json_events.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain::trace_import {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills up to out.size() bytes and returns the number; 0 only at the end.
  virtual Result<std::int64_t> Read(std::span<char> out) = 0;
  // Packed size of the file and packed bytes read so far, for progress.
  virtual std::int64_t file_bytes() const = 0;
  virtual std::int64_t file_bytes_read() const = 0;
};

// Limits for a gzip file: unpacked bytes, and their ratio to the bytes read (checked past a
// megabyte).
struct UnpackLimits {
  std::int64_t max_bytes = std::int64_t{4} << 30;
  std::int64_t max_ratio = 200;
};

// Opens `path` and unpacks it if it starts with the gzip magic. A gzip file that is cut off ends
// like any other file, without an error.
//
// Errors: those of opening and reading; kCorruptInput, damaged gzip data (with its offset);
// kResourceExhausted, past `limits`; kUnsupported, gzip in a build without zlib.
Result<std::unique_ptr<ByteSource>> OpenBytes(FileSystem& files, const std::string& path,
                                              const UnpackLimits& limits = {});

}  // namespace foretrain::trace_import
