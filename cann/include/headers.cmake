# Writes aclnnop/aclnn_X.h for the operators of the table: the headers that programs for AscendCL
# include, one for each operator and what goes with it. Run at build time:
#   cmake -DCC=compiler -DINCLUDE=cann/include -DOUT=folder -P headers.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${CC} -E -P -I${INCLUDE} ${INCLUDE}/aclnnop/aclnn_ops.h
    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "[ \n]+" " " text "${text}")
string(REPLACE "( " "(" text "${text}")
string(REGEX MATCHALL "aclnnStatus aclnn[A-Za-z0-9]+GetWorkspaceSize\\([^)]*\\)" calls "${text}")

# Spellings that are not made of the operator's name: header, operators.
set(also
    "argmax ArgMax" "avgpool2d AvgPool2d" "batch_matmul BatchMatMul"
    "clamp ClampMin ClampMax ClampTensor InplaceClampMin InplaceClampMax InplaceClampTensor" "geglu GeGlu GeGluV3"
    "logsoftmax LogSoftmax" "pow PowTensorScalar PowScalarTensor InplacePowTensorScalar"
    "repeat_interleave RepeatInterleaveInt RepeatInterleaveWithDim RepeatInterleaveIntWithDim"
    "scatter ScatterValue InplaceScatterValue" "sum Sum ReduceSum" "upsample_nearest_2d UpsampleNearest2d")
# Headers that llama.cpp includes for nothing: weir lacks the operators, and declares none.
set(empty ger grouped_matmul_v3 recurrent_gated_delta_rule)

function(header_of name out)
    string(REGEX REPLACE "^Inplace" "" name ${name})
    string(REGEX REPLACE "([a-z0-9])([A-Z])" "\\1_\\2" name ${name})
    string(REGEX REPLACE "([A-Z])([A-Z][a-z])" "\\1_\\2" name ${name})
    string(TOLOWER ${name} name)
    set(${out} ${name} PARENT_SCOPE)
endfunction()

macro(declare header declaration)
    list(APPEND headers ${header})
    string(APPEND text_${header} "${declaration}")
endmacro()

foreach(call IN LISTS calls)
    string(REGEX REPLACE "aclnnStatus aclnn(.*)GetWorkspaceSize.*" "\\1" name "${call}")
    string(REPLACE ", " ",\n    " call "${call}")
    set(both "
WEIR_ACLNN_API ${call};
WEIR_ACLNN_API aclnnStatus aclnn${name}(void *workspace, uint64_t workspaceSize,
    aclOpExecutor *executor, aclrtStream stream);
")
    set(of_${name} "${both}")
    header_of(${name} header)
    declare(${header} "${both}")
    if(header MATCHES "s$") # aclnnAdds is also in aclnn_add.h
        string(REGEX REPLACE "s$" "" header ${header})
        declare(${header} "${both}")
    endif()
endforeach()
foreach(row IN LISTS also)
    separate_arguments(names UNIX_COMMAND "${row}")
    list(POP_FRONT names header)
    foreach(name IN LISTS names)
        if(DEFINED of_${name})
            declare(${header} "${of_${name}}")
        endif()
    endforeach()
endforeach()
string(REGEX MATCH "aclnnStatus aclnnCalculateMatmulWeightSizeV2\\([^)]*\\)" call "${text}")
declare(trans_matmul_weight "\nWEIR_ACLNN_API ${call};\n")

list(APPEND headers ${empty})
list(REMOVE_DUPLICATES headers)
foreach(header IN LISTS headers)
    file(CONFIGURE OUTPUT ${OUT}/aclnnop/aclnn_${header}.h @ONLY CONTENT
"/* Made from the table of operators; aclnn_ops.h says what holds for all of them. */
#ifndef WEIR_ACLNNOP_${header}
#define WEIR_ACLNNOP_${header}

#include \"aclnn/aclnn_base.h\"

#ifdef __cplusplus
extern \"C\" {
#endif
${text_${header}}
#ifdef __cplusplus
}
#endif
#endif
")
endforeach()
