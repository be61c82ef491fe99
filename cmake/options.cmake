# Optional parts of the build, and the flags of all our targets.

# Declares a cache variable `name` with the values AUTO (use it if found), ON (an error if not found) and OFF.
function(ft_part name doc)
  set(${name} AUTO CACHE STRING "${doc}: AUTO, ON or OFF")
  set_property(CACHE ${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT "${${name}}" MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${name}=${${name}}: must be AUTO, ON or OFF")
  endif()
endfunction()

# Records that `part` is not in this build, for the summary and for `foretrain --version`. An error if option `name`
# is ON.
function(ft_leave_out name part why)
  if("${${name}}" STREQUAL "ON")
    message(FATAL_ERROR "${name}=ON, but ${why}")
  endif()
  set_property(GLOBAL APPEND PROPERTY FT_LEFT_OUT_PARTS "${part}")
  set_property(GLOBAL APPEND PROPERTY FT_LEFT_OUT_LINES "${part}: ${why}")
endfunction()

ft_part(FORETRAIN_CUDA "the CUDA plugin")
ft_part(FORETRAIN_UI "the desktop UI")
ft_part(FORETRAIN_ONEDNN "GEMM by oneDNN on CPU")
option(FORETRAIN_FUZZ "libFuzzer targets (clang)" OFF)

# Assertions and FT_CHECK stay on in every build type.
foreach(type RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REGEX REPLACE "[-/]DNDEBUG" "" CMAKE_CXX_FLAGS_${type} "${CMAKE_CXX_FLAGS_${type}}")
endforeach()

# On for the compiler that CI uses; a newer one may have more warnings.
set(werror_default OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(werror_default ON)
endif()
option(FORETRAIN_WERROR "warnings are errors" ${werror_default})
set(werror "")
if(FORETRAIN_WERROR)
  set(werror -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # At -O3 these warn about impossible paths, in lines of the standard library and fmt (GCC bug 105651 and similar).
    list(APPEND werror -Wno-restrict -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=array-bounds
      -Wno-error=maybe-uninitialized)
  endif()
endif()

add_library(foretrain_options INTERFACE)
target_compile_options(foretrain_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow>
  $<$<COMPILE_LANGUAGE:CXX>:${werror}>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-sign-conversion>  # g++'s -Wconversion does not include it either
  # Equal bits from every build type and compiler; kernels/ turns contraction on again.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
  # __FILE__ is a path relative to the repository.
  $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>)
target_include_directories(foretrain_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)

find_program(FT_CCACHE ccache)
if(FT_CCACHE)
  # The base folder lets several checkouts share objects.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${FT_CCACHE})
  foreach(language CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${launcher})
    endif()
  endforeach()
endif()
find_program(FT_LLD ld.lld)
if(FT_LLD)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=lld>)
endif()
mark_as_advanced(FT_CCACHE FT_LLD)
