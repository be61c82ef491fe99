# The plugin libforetrain_cuda.so: the only code that includes CUDA headers. Built if nvcc is found and sources exist.
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cc ${CMAKE_SOURCE_DIR}/kernels/arguments/*.cc
  ${CMAKE_SOURCE_DIR}/runtime/cuda/*.cu ${CMAKE_SOURCE_DIR}/runtime/cuda/*.cc
  ${CMAKE_SOURCE_DIR}/profiler/cuda/*.cu ${CMAKE_SOURCE_DIR}/profiler/cuda/*.cc)
set(FORETRAIN_HAVE_CUDA 0)
set(FORETRAIN_HAVE_CUPTI 0)
if(FORETRAIN_CUDA STREQUAL "OFF")
  ft_leave_out(FORETRAIN_CUDA "CUDA" "FORETRAIN_CUDA=OFF")
  return()
endif()
if(NOT cuda_sources)
  ft_leave_out(FORETRAIN_CUDA "CUDA" "there are no CUDA sources")
  return()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  ft_leave_out(FORETRAIN_CUDA "CUDA" "no CUDA compiler was found")
  return()
endif()
# Both must precede enable_language. Otherwise nvcc's default architecture is used, and two CUDA runtimes are linked.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  include(cuda_architectures)
  ft_cuda_architectures(${CMAKE_CUDA_COMPILER} "80-real;90-real;90-virtual" architectures)
  set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "CUDA architectures")
endif()
if(NOT DEFINED CMAKE_CUDA_RUNTIME_LIBRARY)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake 3.25 has none for nvcc
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit 12.2)
if(NOT CUDAToolkit_FOUND)
  ft_leave_out(FORETRAIN_CUDA "CUDA" "the CUDA toolkit 12.2 or newer was not found")
  return()
endif()
find_package(NCCL)
set(FORETRAIN_HAVE_CUDA 1)

# Only CUPTI's headers: its library is loaded when a run records (profiler/cuda/cupti_table.h).
find_path(FORETRAIN_CUPTI_INCLUDE cupti.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_TARGET_DIR}/extras/CUPTI/include)
mark_as_advanced(FORETRAIN_CUPTI_INCLUDE)
if(FORETRAIN_CUPTI_INCLUDE)
  set(FORETRAIN_HAVE_CUPTI 1)
else()
  set(FORETRAIN_CUPTI_INCLUDE "")
  list(FILTER cuda_sources EXCLUDE REGEX "/profiler/cuda/(activity_records|counter_config|counter_sampler|cuda_capture|cupti_table|drain|sampling_table)\\.cc$")
  ft_leave_out(FORETRAIN_NONE "CUPTI" "cupti.h was not found")
endif()

# Kernels with instructions of compute capability 9.0 alone, as machine code for it. Other GPUs do not choose them.
set(hopper_sources ${cuda_sources})
list(FILTER hopper_sources INCLUDE REGEX "/hopper/.*\\.cu$")
list(REMOVE_ITEM cuda_sources ${hopper_sources})
add_library(foretrain_hopper OBJECT ${hopper_sources})
set_target_properties(foretrain_hopper PROPERTIES CUDA_ARCHITECTURES 90a-real POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

add_library(foretrain_cuda MODULE ${cuda_sources} $<TARGET_OBJECTS:foretrain_hopper>)
# Kernels call the constexpr functions of base/numeric/number_formats.h.
target_compile_options(foretrain_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
target_compile_options(foretrain_hopper PRIVATE --expt-relaxed-constexpr)
target_link_libraries(foretrain_hopper PRIVATE foretrain_options)
# Updates and 8-bit codes must have the CPU's bits. They are bound by memory, so they need no fused multiply-add.
set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/cuda/own/update.cu
  ${CMAKE_SOURCE_DIR}/kernels/cuda/own/adafactor.cu ${CMAKE_SOURCE_DIR}/kernels/cuda/own/exchange.cu
  ${CMAKE_SOURCE_DIR}/kernels/cuda/own/nf4.cu
  PROPERTIES COMPILE_OPTIONS $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>)
target_link_libraries(foretrain_cuda PRIVATE foretrain_options foretrain_base CUDA::cudart CUDA::cublasLt CUDA::nvtx3)
# Not CUDA::cuda_driver: the plugin would need the driver's library at load time.
foreach(optional NCCL::nccl)
  string(REGEX REPLACE ".*::" "" macro ${optional})
  string(TOUPPER FORETRAIN_HAVE_${macro} macro)
  if(TARGET ${optional})
    target_link_libraries(foretrain_cuda PRIVATE ${optional})
    target_compile_definitions(foretrain_cuda PRIVATE ${macro}=1)
  else()
    target_compile_definitions(foretrain_cuda PRIVATE ${macro}=0)
    ft_leave_out(FORETRAIN_NONE "${optional}" "not found with the CUDA toolkit")
  endif()
endforeach()
target_compile_definitions(foretrain_cuda PRIVATE FORETRAIN_HAVE_CUPTI=${FORETRAIN_HAVE_CUPTI})
target_include_directories(foretrain_cuda SYSTEM PRIVATE ${FORETRAIN_CUPTI_INCLUDE})
# CMake treats the toolkit's folder as an implicit link folder and writes no RUNPATH for it. A RUNPATH of its own for the
# build folder would be padded with empty entries, which mean the current folder.
set_target_properties(foretrain_cuda PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  BUILD_WITH_INSTALL_RPATH ON
  INSTALL_RPATH "$ORIGIN;${CUDAToolkit_LIBRARY_DIR};${CUDAToolkit_TARGET_DIR}/extras/CUPTI/lib64")
# runtime/device/cuda_plugin.cc looks here, next to the executable's folder.
install(TARGETS foretrain_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR}/../lib)

# The kernels' PTX, which tests execute on the CPU (tests/plugins/cuda). It must be compiled in this folder, because the
# flags above are properties of sources here.
list(FILTER cuda_sources INCLUDE REGEX "\\.cu$")
add_library(foretrain_ptx OBJECT EXCLUDE_FROM_ALL ${cuda_sources})
add_library(foretrain_hopper_ptx OBJECT EXCLUDE_FROM_ALL ${hopper_sources})
set_target_properties(foretrain_ptx foretrain_hopper_ptx PROPERTIES CUDA_PTX_COMPILATION ON CUDA_ARCHITECTURES 90-virtual)
set_target_properties(foretrain_hopper_ptx PROPERTIES CUDA_ARCHITECTURES 90a-virtual)
foreach(modules foretrain_ptx foretrain_hopper_ptx)
  target_compile_options(${modules} PRIVATE --expt-relaxed-constexpr)
  target_link_libraries(${modules} PRIVATE foretrain_options)
endforeach()
