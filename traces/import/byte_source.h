// The bytes of a trace file one after another, unpacked where gzip packed them. Leaves out what
// they mean.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file_system.h"
#include "base/result.h"

namespace foretrain::trace_import {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills up to out.size() bytes and returns how many; 0 only at the end.
  virtual Result<std::int64_t> Read(std::span<char> out) = 0;
  // Of the file itself, for progress.
  virtual std::int64_t file_bytes() const = 0;
  virtual std::int64_t file_bytes_read() const = 0;
};

// A gzip file may expand to this much, and to this many times its size (past a megabyte of text).
struct UnpackLimits {
  std::int64_t most_bytes = std::int64_t{4} << 30;
  std::int64_t most_ratio = 200;
};

// The text of `path`: unpacked where its first bytes are gzip's. A packed file that ends too early
// ends like any other.
//
// Errors: those of opening and reading; kCorruptInput, damaged packed data (with its offset);
// kResourceExhausted, past `limits`; kUnsupported, packed, and this build has no zlib.
Result<std::unique_ptr<ByteSource>> OpenBytes(FileSystem& files, const std::string& path,
                                              const UnpackLimits& limits = {});

}  // namespace foretrain::trace_import
